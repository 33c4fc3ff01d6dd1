"""Gradient plus what earlier calls have left over, in one pass that also finds numbers that are none."""

from __future__ import annotations

import numpy as np

from weft.compiled import compiled_in_place
from weft.sparse.pairs import Values

_STRETCH = 1024
LARGEST = np.float32(np.finfo(np.float32).max)


def accumulate(gradient: Values, residual: Values, out: Values) -> int:
    """Write the sum to ``out``; the place of the first sum that is infinite or NaN, or -1."""
    return int(_sum(gradient, residual, out))


def accumulate_with_momentum(gradient: Values, velocity: Values, momentum: float, residual: Values, out: Values) -> int:
    """The same for the velocity ``momentum * velocity + gradient``, which is written over the gradient."""
    return int(_sum_with_momentum(gradient, velocity, np.float32(momentum), residual, out))


@compiled_in_place
def _sum(gradient: Values, residual: Values, out: Values) -> int:
    for at in range(0, len(out), _STRETCH):
        new, old, sums = gradient[at : at + _STRETCH], residual[at : at + _STRETCH], out[at : at + _STRETCH]
        wrong = 0
        for i in range(len(sums)):
            total = new[i] + old[i]
            sums[i] = total
            wrong += not abs(total) <= LARGEST
        if wrong:
            return at + _first_wrong(sums)
    return -1


@compiled_in_place
def _sum_with_momentum(gradient: Values, velocity: Values, momentum: np.float32, residual: Values, out: Values) -> int:
    for at in range(0, len(out), _STRETCH):
        new, old, sums = gradient[at : at + _STRETCH], residual[at : at + _STRETCH], out[at : at + _STRETCH]
        speeds = velocity[at : at + _STRETCH]
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
