"""The communication model that fits measurements best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError
from weft.overlap.communication import CommunicationModel, Sample

NEAR_CAPACITY = 1.1
"""What takes less than this times the least is held up by the network's links, and says nothing about the line."""

Line = tuple[float, float]
"""An intercept in seconds and a slope in seconds a byte."""


def fitted(samples: Sequence[Sample]) -> CommunicationModel:
    """The model that fits samples best, by least squares of relative errors; negative intercepts become 0.

    Relative errors, because sizes span three orders of magnitude and small messages are what merging decides about. Numbers at
    once that were not sampled lie on the line between those that were; above the largest there are none. No bytes get through
    faster than the fastest that were measured: lines alone would promise that of many large messages at once, which were not.
    Whether samples near that capacity count for the lines is what fits better.
    """
    counts = sorted({sample.together for sample in samples})
    if not counts or counts[0] != 1:
        raise InputError("the model needs samples of one all-reduce alone: measure some")
    for count in counts:
        sizes = {sample.nbytes for sample in samples if sample.together == count}
        if len(sizes) < 2:
            raise InputError(f"samples of {count} at once have one size: measure at least two sizes")
    least = min(sample.seconds / (sample.together * sample.nbytes) for sample in samples)
    models = [replace(_model(samples, counts, near), capacity=least) for near in (0.0, least)]
    errors = [np.array([model.seconds(s.nbytes, s.together) / s.seconds - 1 for s in samples]) for model in models]
    best = int(np.argmin([error @ error for error in errors]))
    off = np.abs(errors[best])
    return replace(models[best], fit_error=float(np.median(off)), worst_error=float(off.max()))


def _model(samples: Sequence[Sample], counts: Sequence[int], capacity: float) -> CommunicationModel:
    """The lines, of samples that are free of this capacity."""
    a, b = _line([sample for sample in samples if sample.together == 1])
    before = (a, b)
    lines = []
    for count in counts:
        before = _beside(samples, count, capacity, before)
        lines.append(before)
    numbers = range(1, counts[-1] + 1)
    factors = []
    for part, alone in ((0, a), (1, b)):
        known = [line[part] / alone if alone > 0 else 1.0 for line in lines]
        between = np.interp(list(numbers), counts, known)
        factors.append(tuple(np.maximum.accumulate(np.maximum(between, 1.0)).tolist()))
    return CommunicationModel(a, b, factors[1], factors[0])


def _beside(samples: Sequence[Sample], count: int, capacity: float, before: Line) -> Line:
    """The line of so many at once; where too few samples are free of the capacity, as far as needed that of fewer at once."""
    if count == 1:
        return before
    free = [s for s in samples if s.together == count and s.seconds > NEAR_CAPACITY * count * capacity * s.nbytes]
    sizes = {sample.nbytes for sample in free}
    if len(sizes) > 1:
        return _line(free)
    if sizes:
        seconds = float(np.median([sample.seconds for sample in free]))
        return max(before[0], seconds - before[1] * sizes.pop()), before[1]
    return before


def _line(samples: Sequence[Sample]) -> Line:
    """The intercept and the slope, neither negative, that fit best."""
    sizes = np.array([sample.nbytes for sample in samples], dtype=np.float64)
    weights = 1 / np.array([sample.seconds for sample in samples])
    both = np.stack([weights, weights * sizes], axis=1)
    (a, b), *_ = np.linalg.lstsq(both / [1, sizes.max()], np.ones(len(sizes)), rcond=None)
    if a < 0:
        return 0.0, _factor(weights * sizes)
    if b < 0:
        return _factor(weights), 0.0
    return float(a), float(b / sizes.max())


def _factor(column: NDArray[np.float64]) -> float:
    """The one factor for which the column comes nearest to ones."""
    return float(column.sum() / (column @ column))
