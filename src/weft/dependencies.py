"""What a schedule's order implies: which transfers wait for which, how deep the chains are, how a pipeline is ordered.

A cell is one chunk at one worker. A transfer reads the cells of its chunks at its source and writes those at its
destination; an entry is one chunk of one transfer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled
from weft.schedule import Ints, Longs, Schedule

Flags = NDArray[np.bool_]


class Entries(NamedTuple):
    """Transfers cut into entries: transfer ``t`` has the entries from ``start[t]`` to ``start[t + 1]``.

    Entry ``e`` may be sent when the first ``needs[e]`` writes into its source's cell are applied, and it is itself
    write number ``turn[e]`` into its destination's cell. The writes into cell ``c`` are
    ``writes[write_start[c]:write_start[c + 1]]``.
    """

    start: Longs
    read: Longs
    written: Longs
    needs: Ints
    turn: Ints
    write_start: Longs
    writes: Longs


def entries(schedule: Schedule) -> Entries:
    """The entries of a schedule and what each waits for."""
    chunks = len(schedule.chunk_weights)
    start = np.zeros(len(schedule) + 1, dtype=np.int64)
    np.cumsum(schedule.span, out=start[1:])
    offset = np.arange(start[-1]) - np.repeat(start[:-1], schedule.span)
    chunk = np.repeat(schedule.chunk.astype(np.int64), schedule.span) + offset
    read = np.repeat(schedule.source.astype(np.int64) * chunks, schedule.span) + chunk
    written = np.repeat(schedule.destination.astype(np.int64) * chunks, schedule.span) + chunk
    needs, turn, counts = _turns(start, read, written, schedule.exchanges, schedule.workers * chunks)
    write_start = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=write_start[1:])
    writes = np.empty(len(read), dtype=np.int64)
    writes[write_start[written] + turn] = np.arange(len(read))
    return Entries(start, read, written, needs, turn, write_start, writes)


def depths(schedule: Schedule) -> Ints:
    """For every transfer, the length of the longest chain of data that ends with it."""
    return _levels(*_cells(schedule), schedule.exchanges, schedule.workers * len(schedule.chunk_weights), False)


def waves(schedule: Schedule) -> Ints:
    """For every transfer, the earliest step of a pipeline in which it can stand without changing any value."""
    return _levels(*_cells(schedule), schedule.exchanges, schedule.workers * len(schedule.chunk_weights), True)


def _cells(schedule: Schedule) -> tuple[Longs, Longs, Ints]:
    chunks = len(schedule.chunk_weights)
    chunk = schedule.chunk.astype(np.int64)
    return schedule.source * np.int64(chunks) + chunk, schedule.destination * np.int64(chunks) + chunk, schedule.span


@compiled
def _turns(start: Longs, read: Longs, written: Longs, second: Flags, cells: int) -> tuple[Ints, Ints, Ints]:
    counts = np.zeros(cells, dtype=np.int32)
    needs = np.empty(len(read), dtype=np.int32)
    turn = np.empty(len(read), dtype=np.int32)
    for t in range(len(start) - 1):
        for e in range(start[t], start[t + 1]):
            needs[e] = counts[read[e]] - (1 if second[t] else 0)
        for e in range(start[t], start[t + 1]):
            turn[e] = counts[written[e]]
            counts[written[e]] += 1
    return needs, turn, counts


@compiled
def _levels(read: Longs, written: Longs, span: Ints, second: Flags, cells: int, keep_values: bool) -> Ints:
    """Levels from 1 on. With ``keep_values`` a write also stays behind the reads and writes that are listed before it."""
    last_write = np.zeros(cells, dtype=np.int32)
    last_read = np.zeros(cells if keep_values else 1, dtype=np.int32)
    level = np.zeros(len(read), dtype=np.int32)
    t = 0
    while t < len(read):
        both = t + 1 < len(read) and second[t + 1]
        high = np.int32(0)
        for u in range(t, t + 2 if both else t + 1):
            for i in range(span[u]):
                high = max(high, last_write[read[u] + i] + np.int32(1))
                if keep_values:
                    high = max(high, last_read[written[u] + i], last_write[written[u] + i])
        for u in range(t, t + 2 if both else t + 1):
            level[u] = high
            for i in range(span[u]):
                last_write[written[u] + i] = max(high, last_write[written[u] + i])
                if keep_values:
                    last_read[read[u] + i] = max(high, last_read[read[u] + i])
        t += 2 if both else 1
    return level
