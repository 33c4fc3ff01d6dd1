"""Double binary tree: two trees, each for half of the tensor, such that nobody is in the middle of both.

After Sanders, Speck and Träff (2009): number the workers from 1, put every number under the one next to it that is
divisible by a higher power of two, and odd numbers are leaves. The second tree is the same for the mirrored numbers
(or, for an odd number of workers, for those shifted by one), where odd and even have changed places.
"""

from __future__ import annotations

import numpy as np

from weft.collectives.trees import ABSENT, ROOT, equal_weights, tree_schedule
from weft.network import Network
from weft.schedule import Schedule


def double_binary_tree(network: Network) -> Schedule:
    """Two binary trees in rank order. Cut it into segments to pipeline it."""
    active = network.active
    n = len(active)
    order = _tree_of(n)
    parents = np.full((2, len(network.workers)), ABSENT, dtype=np.int32)
    for tree in range(2):
        place = {rank: _place(i, n, tree) for i, rank in enumerate(active)}
        rank_at = {at: rank for rank, at in place.items()}
        for rank, at in place.items():
            parents[tree, rank] = ROOT if order[at] == 0 else rank_at[order[at]]
    if n == 1:
        return tree_schedule(parents[:1], equal_weights(1), active, "double_binary_tree")
    return tree_schedule(parents, equal_weights(2), active, "double_binary_tree")


def _place(i: int, n: int, tree: int) -> int:
    """The number of the i-th worker in a tree, from 1 to n."""
    if tree == 0:
        return i + 1
    return n - i if n % 2 == 0 else (i + 1) % n + 1


def _tree_of(n: int) -> dict[int, int]:
    """The parent of every number from 1 to n; 0 for the root."""
    parent: dict[int, int] = {}
    waiting = [(1, n, 0)]
    while waiting:
        low, high, above = waiting.pop()
        if low > high:
            continue
        middle = high
        while middle & (middle - 1) >= low:
            middle &= middle - 1
        parent[middle] = above
        waiting += [(low, middle - 1, middle), (middle + 1, high, middle)]
    return parent
