"""Hierarchical all-reduce in two levels: reduce-scatter in every rack, all-reduce between racks, gather in every rack."""

from __future__ import annotations

from weft.collectives.levels import Group, scatter_gather
from weft.network import Network
from weft.schedule import Schedule


def hierarchical(network: Network) -> Schedule:
    """Rings within the innermost regions, and rings of their members with the same piece across all of these regions."""
    groups: tuple[Group, ...] = tuple(group if len(group) > 1 else group[0] for group in network.region_tree.leaves())
    whole = groups[0] if len(groups) == 1 else groups
    return scatter_gather(len(network.workers), whole, network.active, "hierarchical")
