"""A grid of chunks made of cuts at exact fractions of the tensor."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError
from weft.schedule import MOST_WEIGHT

Interval = tuple[Fraction, Fraction]
WHOLE: tuple[Fraction, Fraction] = (Fraction(0), Fraction(1))


class Grid:
    """Chunks between neighbouring cuts; ``chunks`` says which of them an interval consists of."""

    def __init__(self, cuts: Iterable[Fraction]) -> None:
        self.cuts = sorted({*WHOLE, *cuts})
        denominator = lcm(*(cut.denominator for cut in self.cuts))
        if denominator >= MOST_WEIGHT:
            raise InputError("regions of so many different sizes cut the tensor too finely for exact chunks")
        widths = [int((end - start) * denominator) for start, end in pairwise(self.cuts)]
        self.weights: NDArray[np.int64] = np.array(widths, dtype=np.int64)

    def chunks(self, interval: Interval) -> tuple[int, int]:
        """The first chunk of an interval and how many there are."""
        first, end = (bisect_left(self.cuts, cut) for cut in interval)
        assert (self.cuts[first], self.cuts[end]) == interval
        return first, end - first


def intervals(cuts: Sequence[Fraction]) -> list[Interval]:
    """What lies between neighbouring cuts."""
    return list(pairwise(cuts))


def parts(interval: Interval, n: int) -> list[Interval]:
    """An interval in n equal parts."""
    width = (interval[1] - interval[0]) / n
    return [(interval[0] + i * width, interval[0] + (i + 1) * width) for i in range(n)]
