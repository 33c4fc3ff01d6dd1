"""Marked elements of a stretch, put down one behind the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled_in_place
from weft.sparse.pairs import Indexes, Values

EIGHT = 8
"""So many marks are looked at at a time; lists must have room for so many more than they may hold."""


@compiled_in_place
def put_down(part: Values, marks: NDArray[np.uint8], start: int, index: Indexes, value: Values, found: int) -> int:
    """Add the marked ones to lists that have so many already; how many there are then. If there is no more room, it stops.

    Of eight, all are written where the next belongs, and only a marked one is left there: a branch for each would often be
    foreseen wrongly, and take twice as long.
    """
    room = len(index) - EIGHT
    eights = marks[: len(part) & ~7].view(np.uint64)
    for j in range(len(eights)):
        if eights[j]:
            if found > room:
                return found
            for i in range(8 * j, 8 * j + 8):
                index[found], value[found] = start + i, part[i]
                found += marks[i]
    for i in range(8 * len(eights), len(part)):
        if marks[i] and found <= room:
            index[found], value[found] = start + i, part[i]
            found += 1
    return found
