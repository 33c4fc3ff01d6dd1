"""Forest: the trees that a packing chose, each for its part of the tensor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.collectives.trees import Parents, paired_tree_schedule
from weft.errors import InputError
from weft.network import Network
from weft.packing.few import few_trees
from weft.packing.pack import Packing, pack
from weft.packing.pieces import pieces_of
from weft.schedule import Schedule

_WHOLE = 1 << 16
"""Weights are rounded to parts of this; pieces that come out as nothing are left out."""


def forest(network: Network, trees: int | None = None, seconds: float = 10.0) -> Schedule:
    """The best packing of trees; ``trees`` limits how many pieces the tensor is cut into, at some loss of rate."""
    if trees is not None and trees < 1:
        raise InputError(f"a forest of {trees} trees is not possible: it needs at least one")
    if len(network.active) < 2:
        return Schedule.of(len(network.workers), 1, [], [], [], [], participants=network.active, name="forest")
    packing = pack(network, seconds=seconds) if trees is None else few_trees(network, trees, seconds=seconds)
    return forest_of(network, packing)


def forest_of(network: Network, packing: Packing) -> Schedule:
    """The schedule of a packing."""
    pieces = pieces_of(packing)
    if not pieces:
        raise InputError(
            f"a packing of {packing.formulation} trees alone makes no forest: it must reduce and broadcast"
        )
    weights = _whole_numbers([piece[2] for piece in pieces])
    kept = np.flatnonzero(weights)
    up: Parents = np.array([pieces[i][0].parents for i in kept], dtype=np.int32)
    down: Parents = np.array([pieces[i][1].parents for i in kept], dtype=np.int32)
    return paired_tree_schedule(up, down, weights[kept], network.active, "forest")


def _whole_numbers(parts: list[float]) -> NDArray[np.int64]:
    weights = np.rint(np.array(parts) / sum(parts) * _WHOLE).astype(np.int64)
    divisor = np.gcd.reduce(weights)
    reduced: NDArray[np.int64] = weights // max(1, divisor)
    return reduced
