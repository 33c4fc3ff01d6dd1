"""BlueConnect (Cho et al. 2019): one ring becomes a ring at every level of the network's regions.

With two levels it is the hierarchical all-reduce; with more, every level reduces what the one below has scattered.
"""

from __future__ import annotations

from weft.collectives.levels import Group, scatter_gather
from weft.network import Network, RegionTree
from weft.schedule import Schedule


def blueconnect(network: Network) -> Schedule:
    """Rings within every region at every level."""
    return scatter_gather(len(network.workers), _group(network.region_tree), network.active, "blueconnect")


def _group(region: RegionTree) -> Group:
    members = tuple(member if isinstance(member, int) else _group(member) for member in region.members)
    return members[0] if len(members) == 1 else members
