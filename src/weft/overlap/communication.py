"""CommunicationModel: how long an all-reduce takes, alone and beside others.

One alone takes ``a + b * bytes``. Each of m at once, all of one size, takes ``startup[m] * a + contention[m] * b * bytes``: the
second factor is gamma of ASC-WFBP (Shi et al. 2021), which knows it for two only; the first says that starting takes longer,
too, where processors are what is shared. None takes less than ``m * capacity * bytes``, which is what the network's links need
for all of them: small messages at once fill what each alone leaves idle, large ones cannot. An operation that meets others for a
part of its time progresses, at every moment, as fast as if as many of its size had run at once all the time; for two that is
Equation 12 of the paper. Where the same processors compute and serve the network, computing runs at ``pace`` of its speed while
anything is on its way, and operations take ``drag`` times as long while gradients are still being computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError

MOST_TOGETHER = 8


@dataclass(frozen=True, slots=True)
class CommunicationModel:
    """``a`` in seconds, ``b`` in seconds a byte, and what m operations at once do to both: entry m - 1, 1 for one alone."""

    a: float
    b: float
    contention: tuple[float, ...] = (1.0,)
    startup: tuple[float, ...] = ()
    """if left out, starting takes as long beside others as alone"""
    capacity: float = 0.0
    """seconds a byte that the network takes for all operations together at least"""
    pace: float = 1.0
    drag: float = 1.0
    fit_error: float = 0.0
    """the median, over samples, of how far the model is from what was measured, as a part of it"""
    worst_error: float = 0.0

    def __post_init__(self) -> None:
        if not self.startup:
            object.__setattr__(self, "startup", (1.0,) * len(self.contention))
        if not all(0 <= value < math.inf for value in (self.a, self.b, self.capacity)):
            what = f"a = {self.a} s, b = {self.b} s/byte and a capacity of {self.capacity} s/byte"
            raise InputError(f"{what} are not possible: all must be 0 or more")
        if not (0 < self.pace <= 1 <= self.drag < math.inf):
            raise InputError(
                f"a pace of {self.pace} and a drag of {self.drag} are not possible: "
                "a pace is above 0 and at most 1, a drag at least 1"
            )
        for what, factors in (("contention", self.contention), ("startup", self.startup)):
            if not 1 <= len(factors) <= MOST_TOGETHER or len(factors) != len(self.contention):
                raise InputError(
                    f"{what} has {len(factors)} factors: give one for every number at once, 1 to {MOST_TOGETHER}"
                )
            rising = all(1 <= one <= two < math.inf for one, two in zip((1.0, *factors), factors, strict=False))
            if factors[0] != 1 or not rising:
                raise InputError(f"{what} {factors} is not possible: it starts with 1 and never falls")

    @property
    def together(self) -> int:
        """How many operations at once the model knows."""
        return len(self.contention)

    @property
    def least_per_byte(self) -> float:
        """Seconds a byte at the best number at once: no schedule gets bytes through faster."""
        return max(self.capacity, self.b * min(gamma / m for m, gamma in enumerate(self.contention, 1)))

    def seconds(self, nbytes: float, together: int = 1) -> float:
        """What each of so many operations takes, if all have this size and start at once."""
        if not 1 <= together <= self.together:
            raise InputError(f"{together} operations at once: this model knows 1 to {self.together}")
        line = self.startup[together - 1] * self.a + self.contention[together - 1] * self.b * nbytes
        return max(line, together * self.capacity * nbytes)

    def limited(self, together: int) -> CommunicationModel:
        """The same for at most so many at once."""
        if together < 1:
            raise InputError(f"{together} operations at once are not possible: allow at least 1")
        return replace(self, contention=self.contention[:together], startup=self.startup[:together])

    def arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Seconds to start, seconds a byte, and seconds a byte at least: each by the number at once less one; pace and drag."""
        counts = np.arange(1.0, self.together + 1)
        beside = np.array([self.pace, self.drag])
        return self.a * np.array(self.startup), self.b * np.array(self.contention), self.capacity * counts, beside


def shared_link(a: float, b: float, together: int = MOST_TOGETHER) -> CommunicationModel:
    """One alone fills the network but for its start: several at once gain what starting takes, and nothing else."""
    return CommunicationModel(a, b, (1.0,) * together, capacity=b)


@dataclass(frozen=True, slots=True)
class Sample:
    """So many all-reduces of this size, started at once, took so long until the last had ended."""

    nbytes: float
    together: int
    seconds: float

    def __post_init__(self) -> None:
        if not (0 < self.nbytes < math.inf and 0 < self.seconds < math.inf and 1 <= self.together <= MOST_TOGETHER):
            raise InputError(
                f"{self} is not possible: sizes and times are above 0, and at most {MOST_TOGETHER} run at once"
            )
