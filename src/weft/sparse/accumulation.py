"""Gradient plus what earlier calls have left over, in one pass that also finds numbers that are none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled_in_place
from weft.sparse.marking import EIGHT, STRETCH, Marks, put_down, scratch
from weft.sparse.pairs import Indexes, Pairs, Values

LARGEST = np.float32(np.finfo(np.float32).max)


def accumulate(gradient: Values, residual: Values, out: Values) -> int:
    """Write the sum to ``out``; the place of the first sum that is infinite or NaN, or -1."""
    return int(_sum(gradient, residual, out))


def room_for(pairs: int) -> Pairs:
    """Memory for so many that are collected."""
    return Pairs(np.empty(pairs + EIGHT, np.int32), np.empty(pairs + EIGHT, np.float32))


def accumulate_and_collect(
    gradient: Values, residual: Values, out: Values, start: int, threshold: float, room: Pairs
) -> tuple[int, Pairs | None]:
    """The same, and all sums of at least this magnitude, counted from ``start`` on, in ``room``; None if that is too small."""
    index, value, counts = room.index, room.value, np.zeros(1, np.int64)
    wrong = int(
        _sum_and_collect(gradient, residual, out, start, np.float32(threshold), index, value, *scratch(), counts)
    )
    count = int(counts[0])
    return wrong, Pairs(index[:count], value[:count]) if wrong < 0 and count <= len(room) - EIGHT else None


def accumulate_with_momentum(gradient: Values, velocity: Values, momentum: float, residual: Values, out: Values) -> int:
    """The same for the velocity ``momentum * velocity + gradient``, which is written over the gradient."""
    return int(_sum_with_momentum(gradient, velocity, np.float32(momentum), residual, out))


@compiled_in_place
def _sum(gradient: Values, residual: Values, out: Values) -> int:
    for at in range(0, len(out), STRETCH):
        new, old, sums = gradient[at : at + STRETCH], residual[at : at + STRETCH], out[at : at + STRETCH]
        wrong = 0
        for i in range(len(sums)):
            total = new[i] + old[i]
            sums[i] = total
            wrong += not abs(total) <= LARGEST
        if wrong:
            return at + _first_wrong(sums)
    return -1


@compiled_in_place
def _sum_and_collect(
    gradient: Values,
    residual: Values,
    out: Values,
    start: int,
    threshold: np.float32,
    index: Indexes,
    value: Values,
    marks: Marks,
    full: Marks,
    counts: NDArray[np.int64],
) -> int:
    found = 0
    for at in range(0, len(out), STRETCH):
        new, old, sums = gradient[at : at + STRETCH], residual[at : at + STRETCH], out[at : at + STRETCH]
        wrong = 0
        for i in range(len(sums)):
            total = new[i] + old[i]
            sums[i] = total
            strength = abs(total)
            wrong += not strength <= LARGEST
            marks[i] = strength >= threshold
        if wrong:
            return at + _first_wrong(sums)
        found = put_down(sums, marks, full, start + at, index, value, found)
    counts[0] = found
    return -1


@compiled_in_place
def _sum_with_momentum(gradient: Values, velocity: Values, momentum: np.float32, residual: Values, out: Values) -> int:
    for at in range(0, len(out), STRETCH):
        new, old, sums = gradient[at : at + STRETCH], residual[at : at + STRETCH], out[at : at + STRETCH]
        speeds = velocity[at : at + STRETCH]
        wrong = 0
        for i in range(len(sums)):
            speed = momentum * speeds[i] + new[i]
            total = speed + old[i]
            new[i] = speed
            sums[i] = total
            wrong += not abs(total) <= LARGEST
        if wrong:
            return at + _first_wrong(sums)
    return -1


@compiled_in_place
def _first_wrong(values: Values) -> int:
    for i in range(len(values)):
        if not abs(values[i]) <= LARGEST:
            return i
    return -1


def first_not_finite(values: Values) -> int:
    """The place of the first value that is infinite or NaN, or -1."""
    return int(_first_wrong(values))
