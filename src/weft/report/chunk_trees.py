"""The transfers of one chunk: which worker sends to which, and who is first to hold the full sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.report.shapes import Ints
from weft.schedule import COPY, REDUCE, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class ChunkTree:
    """One chunk's way through the workers: rows of sources and destinations, each pair once."""

    chunk: int
    share: float
    """its part of the tensor, from 0 to 1"""
    root: int | None
    """the worker that is first to hold the full sum"""
    reduces: Ints
    copies: Ints


def heaviest_chunks(schedule: Schedule, most: int) -> list[int]:
    """The chunks with the largest parts of the tensor, the first of equals first."""
    order = np.argsort(-schedule.chunk_weights, kind="stable")
    return [int(chunk) for chunk in order[: max(1, most)]]


def chunk_tree(schedule: Schedule, chunk: int) -> ChunkTree:
    """The transfers that carry a chunk."""
    chosen = np.flatnonzero((schedule.chunk <= chunk) & (chunk < schedule.chunk + schedule.span))
    pairs = np.column_stack([schedule.source[chosen], schedule.destination[chosen]]).astype(np.int64)
    kind = schedule.op[chosen]
    return ChunkTree(
        chunk,
        float(schedule.chunk_weights[chunk]) / schedule.whole,
        _root(schedule, chosen),
        np.unique(pairs[kind == REDUCE], axis=0),
        np.unique(pairs[kind == COPY], axis=0),
    )


def _root(schedule: Schedule, chosen: NDArray[np.intp]) -> int | None:
    """Runs the transfers on sets of contributions, one bit each, until a worker has all."""
    held = [0] * schedule.workers
    for rank in schedule.participants:
        held[rank] = 1 << rank
    full = sum(held)
    if len(schedule.participants) == 1:
        return schedule.participants[0]
    for i in chosen.tolist():
        source, destination = int(schedule.source[i]), int(schedule.destination[i])
        # The second of an exchange may take the first with it: it adds only what its destination has already.
        held[destination] = held[source] if schedule.op[i] == COPY else held[destination] | held[source]
        if held[destination] == full:
            return destination
    return None
