"""Forest: the trees that a packing chose, each for its part of the tensor.

At every root the reduce trees carry as much as the broadcast trees, but they need not be the same: the root's part is cut
wherever one of either kind ends, and each piece goes up one tree and down another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.collectives.trees import Parents, paired_tree_schedule
from weft.network import Network
from weft.packing.pack import Packing, Tree, pack
from weft.schedule import Schedule

_WHOLE = 1 << 16
"""Weights are rounded to parts of this; pieces that come out as nothing are left out."""


def forest(network: Network, trees: int | None = None, seconds: float = 10.0) -> Schedule:
    """The best packing of trees; ``trees`` limits how many pieces the tensor is cut into, at some loss of rate."""
    if len(network.active) < 2:
        return Schedule.of(len(network.workers), 1, [], [], [], [], participants=network.active, name="forest")
    return forest_of(network, pack(network, seconds=seconds), trees)


def forest_of(network: Network, packing: Packing, most: int | None = None) -> Schedule:
    """The schedule of a packing."""
    pieces = pieces_of(packing)
    if most is not None and len(pieces) > most:
        pieces = sorted(pieces, key=lambda piece: -piece[2])[:most]
    weights = _whole_numbers([piece[2] for piece in pieces])
    kept = np.flatnonzero(weights)
    up: Parents = np.array([pieces[i][0].parents for i in kept], dtype=np.int32)
    down: Parents = np.array([pieces[i][1].parents for i in kept], dtype=np.int32)
    return paired_tree_schedule(up, down, weights[kept], network.active, "forest")


Piece = tuple[Tree, Tree, float]
"""A reduce tree, a broadcast tree with the same root, and the part of the tensor that takes both."""


def pieces_of(packing: Packing) -> list[Piece]:
    """Every root's part, cut where a tree of either kind is full; heavy trees are paired with heavy ones."""
    pieces: list[Piece] = []
    for root in sorted({tree.root for tree in packing.trees}):
        sides = [
            sorted((t for t in packing.trees if t.root == root and t.kind == kind), key=lambda t: -t.weight)
            for kind in ("reduce", "broadcast")
        ]
        left = [[t.weight for t in side] for side in sides]
        i = j = 0
        while i < len(sides[0]) and j < len(sides[1]):
            part = min(left[0][i], left[1][j])
            if part > 1e-9:
                pieces.append((sides[0][i], sides[1][j], part))
            left[0][i] -= part
            left[1][j] -= part
            i += left[0][i] <= 1e-9
            j += left[1][j] <= 1e-9
    return pieces


def _whole_numbers(parts: list[float]) -> NDArray[np.int64]:
    weights = np.rint(np.array(parts) / sum(parts) * _WHOLE).astype(np.int64)
    divisor = np.gcd.reduce(weights)
    reduced: NDArray[np.int64] = weights // max(1, divisor)
    return reduced
