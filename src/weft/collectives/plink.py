"""PLink (Luo et al. 2020): aggregation in two levels, whatever the number of levels in the network.

Every worker sends directly to its group's aggregator, and aggregators directly to the root, each worker being root and
aggregator for its part. Four dependent steps; where regions nest deeper than one level, outer uplinks carry more than
they need to.
"""

from __future__ import annotations

from weft.collectives.rat import balanced_trees
from weft.collectives.trees import equal_weights, tree_schedule
from weft.network import Network, RegionTree
from weft.schedule import Schedule


def plink(network: Network) -> Schedule:
    """One tree for every worker as the root, over the innermost regions only."""
    groups = network.region_tree.leaves()
    inner = tuple(RegionTree(f"group {i}", (), group) for i, group in enumerate(groups) if len(group) > 1)
    alone = tuple(group[0] for group in groups if len(group) == 1)
    flat = inner[0] if len(inner) == 1 and not alone else RegionTree("network", inner, alone)
    parents = balanced_trees(network, flat)
    return tree_schedule(parents, equal_weights(len(parents)), network.active, "plink")
