"""Schedules of trees: each tree reduces its chunk to its root and sends the result back down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.schedule import COPY, REDUCE, Schedule

ROOT, ABSENT = -1, -2
Parents = NDArray[np.int32]
"""One row a tree, one column a rank: the parent's rank, ``ROOT`` or ``ABSENT``."""


def tree_schedule(parents: Parents, weights: NDArray[np.int64], participants: tuple[int, ...], name: str) -> Schedule:
    """Tree ``i`` carries chunk ``i``. Leaves send first, level by level; the trees take turns within a level."""
    depth = tree_depths(parents)
    tree, rank = np.nonzero(parents >= 0)
    level = depth[tree, rank]
    parent = parents[tree, rank]
    up = np.lexsort((rank, tree, -level))
    down = np.lexsort((rank, tree, level))
    return Schedule.of(
        parents.shape[1],
        weights,
        source=np.concatenate([rank[up], parent[down]]),
        destination=np.concatenate([parent[up], rank[down]]),
        chunk=np.concatenate([tree[up], tree[down]]),
        op=np.repeat([REDUCE, COPY], len(tree)),
        participants=participants,
        name=name,
    )


def tree_depths(parents: Parents) -> NDArray[np.int32]:
    """How far every rank is from the root of every tree; 0 for the root and for absent ranks."""
    depth = np.zeros(parents.shape, dtype=np.int32)
    rows = np.arange(len(parents))[:, None]
    above = parents.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parents[rows, np.maximum(above, 0)], above)
        assert depth.max(initial=0) < parents.shape[1], "a cycle is not a tree"
    return depth


def equal_weights(trees: int) -> NDArray[np.int64]:
    return np.ones(trees, dtype=np.int64)
