"""Marked elements of a stretch, put down one behind the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled_in_place
from weft.sparse.pairs import Indexes, Values

STRETCH, EIGHT = 1024, 8
"""Elements that are marked before any is put down, and marks that are looked at at a time, as one number.

Lists must have room for so many more than they may hold.
"""
Marks = NDArray[np.uint8]

_ONE = np.uint64(1)
_PLACES = np.uint64(0x0001020304050607)
_LAST = np.uint64(56)


def scratch() -> tuple[Marks, Marks]:
    """A mark for every element of a stretch, and memory for ``put_down``."""
    return np.empty(STRETCH, np.uint8), np.empty(STRETCH // EIGHT, np.uint8)


@compiled_in_place
def put_down(part: Values, marks: Marks, full: Marks, start: int, index: Indexes, value: Values, found: int) -> int:
    """Add the marked ones to lists that have so many already; how many there are then. If there is no more room, it stops.

    Marks are 0 or 1. First comes which eights have any, without a branch, as no processor foresees it; nearly all of these have
    one. The product brings to the front at which of eight places a lone 1 is.
    """
    room = len(index) - EIGHT
    eights = marks[: len(part) & ~7].view(np.uint64)
    some = 0
    for j in range(len(eights)):
        full[some] = j
        some += eights[j] != 0
    for at in range(some):
        left = eights[full[at]]
        if found > room:
            return found
        while left:
            lowest = left & (~left + _ONE)
            i = EIGHT * full[at] + int(lowest * _PLACES >> _LAST)
            index[found], value[found] = start + i, part[i]
            found += 1
            left ^= lowest
    for i in range(8 * len(eights), len(part)):
        if marks[i] and found <= room:
            index[found], value[found] = start + i, part[i]
            found += 1
    return found
