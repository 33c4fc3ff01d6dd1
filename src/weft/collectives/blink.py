"""Blink (Wang et al. 2020): spanning trees packed into every machine, and a ring between machines.

Every region reduces to one of its workers over trees that use all its links, these workers all-reduce in a ring, and
the result goes back down the trees.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from weft.collectives.grid import Grid, Interval, parts
from weft.collectives.trees import tree_depths
from weft.network import Network
from weft.packing.pack import trees_from
from weft.schedule import Schedule, Transfer

_WHOLE = 1024
_SMALLEST_SHARE = 0.02
"""Trees that carry less are left out."""


def blink(network: Network) -> Schedule:
    """Packed trees inside the innermost regions (or the whole network, if it has none), a ring of their first workers."""
    tree = network.region_tree
    groups = tree.leaves() if tree.regions else (tree.workers,)
    down = [step for group in groups for step in _group_trees(network, group)]
    ring_parts = parts((Fraction(0), Fraction(1)), len(groups))
    cuts = {cut for _, _, interval in down for cut in interval} | {cut for part in ring_parts for cut in part}
    grid = Grid(cuts)
    heads = [group[0] for group in groups]
    n = len(heads)
    transfers: list[Transfer] = []
    for parent, child, interval in reversed(down):
        transfers.append(Transfer(child, parent, grid.chunks(interval)[0], "reduce", grid.chunks(interval)[1]))
    for step in range(2 * (n - 1)):
        for i in range(n):
            first, span = grid.chunks(ring_parts[(i - step) % n])
            transfers.append(Transfer(heads[i], heads[(i + 1) % n], first, "reduce" if step < n - 1 else "copy", span))
    for parent, child, interval in down:
        transfers.append(Transfer(parent, child, grid.chunks(interval)[0], "copy", grid.chunks(interval)[1]))
    return Schedule.of_transfers(len(network.workers), grid.weights, transfers, network.active, "blink")


def _group_trees(network: Network, group: tuple[int, ...]) -> list[tuple[int, int, Interval]]:
    """Parent, child and part of the tensor of every edge of a group's trees, those near the root first."""
    if len(group) == 1:
        return []
    trees = [tree for tree in trees_from(network, group) if tree.weight >= _SMALLEST_SHARE]
    weights = np.array([tree.weight for tree in trees])
    ends = np.rint(np.cumsum([0.0, *weights]) / weights.sum() * _WHOLE)
    depths = tree_depths(np.array([tree.parents for tree in trees]))
    edges: list[tuple[int, int, int, Interval]] = []
    for i, tree in enumerate(trees):
        interval = (Fraction(int(ends[i]), _WHOLE), Fraction(int(ends[i + 1]), _WHOLE))
        if interval[0] < interval[1]:
            edges += [(int(depths[i, c]), p, c, interval) for c, p in enumerate(tree.parents.tolist()) if p >= 0]
    edges.sort(key=lambda edge: edge[0])
    return [edge[1:] for edge in edges]
