"""A binary heap of numbered items ordered by time, in which every item's time can be changed or taken out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled_in_place, compiled_inside


class Heap(NamedTuple):
    """``items[:size[0]]`` is the heap; ``place`` says where an item is in it, or -1."""

    items: NDArray[np.int32]
    place: NDArray[np.int32]
    time: NDArray[np.float64]
    size: NDArray[np.int64]


def empty_heap(capacity: int) -> Heap:
    return Heap(
        np.zeros(capacity, dtype=np.int32),
        np.full(capacity, -1, dtype=np.int32),
        np.zeros(capacity, dtype=np.float64),
        np.zeros(1, dtype=np.int64),
    )


@compiled_inside
def _rise(heap: Heap, at: int) -> None:
    items, place, time = heap.items, heap.place, heap.time
    item = items[at]
    while at > 0:
        above = (at - 1) >> 1
        if time[items[above]] <= time[item]:
            break
        items[at] = items[above]
        place[items[at]] = at
        at = above
    items[at] = item
    place[item] = at


@compiled_inside
def _sink(heap: Heap, at: int) -> None:
    items, place, time = heap.items, heap.place, heap.time
    size = heap.size[0]
    item = items[at]
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and time[items[below + 1]] < time[items[below]]:
            below += 1
        if time[item] <= time[items[below]]:
            break
        items[at] = items[below]
        place[items[at]] = at
        at = below
    items[at] = item
    place[item] = at


@compiled_in_place
def schedule_at(heap: Heap, item: int, time: float) -> None:
    """Put an item in, or move it."""
    at = heap.place[item]
    if at < 0:
        at = heap.size[0]
        heap.size[0] += 1
        heap.items[at] = item
        heap.time[item] = time
        _rise(heap, at)
    else:
        earlier = time < heap.time[item]
        heap.time[item] = time
        if earlier:
            _rise(heap, at)
        else:
            _sink(heap, at)


@compiled_in_place
def take_out(heap: Heap, item: int) -> None:
    """Take an item out, wherever it is; nothing if it is not in."""
    at = heap.place[item]
    if at < 0:
        return
    heap.place[item] = -1
    heap.size[0] -= 1
    last = heap.items[heap.size[0]]
    if last != item:
        heap.items[at] = last
        heap.place[last] = at
        _sink(heap, at)
        _rise(heap, heap.place[last])
