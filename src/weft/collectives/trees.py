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
    return paired_tree_schedule(parents, parents, weights, participants, name)


def paired_tree_schedule(
    up: Parents, down: Parents, weights: NDArray[np.int64], participants: tuple[int, ...], name: str
) -> Schedule:
    """Chunk ``i`` is reduced along tree ``up[i]`` and broadcast along ``down[i]``, which has the same root."""
    up_tree, up_rank = np.nonzero(up >= 0)
    first = np.lexsort((up_rank, up_tree, -tree_depths(up)[up_tree, up_rank]))
    down_tree, down_rank = np.nonzero(down >= 0)
    second = np.lexsort((down_rank, down_tree, tree_depths(down)[down_tree, down_rank]))
    return Schedule.of(
        up.shape[1],
        weights,
        source=np.concatenate([up_rank[first], down[down_tree, down_rank][second]]),
        destination=np.concatenate([up[up_tree, up_rank][first], down_rank[second]]),
        chunk=np.concatenate([up_tree[first], down_tree[second]]),
        op=np.repeat([REDUCE, COPY], [len(first), len(second)]),
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
