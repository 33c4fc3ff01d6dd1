"""Pieces: what a packing makes of the tensor. Each piece goes up one reduce tree and down one broadcast tree.

At every root the reduce trees carry as much as the broadcast trees, but they need not be the same: the root's part is cut
wherever one of either kind ends.
"""

from __future__ import annotations

from weft.packing.pack import Packing
from weft.packing.search import Tree

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
