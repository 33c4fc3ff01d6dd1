"""Strategy: how workers agree around a local step, as a description that knows no tensors.

Two kinds. In an ``Averaging`` strategy all workers take the same step at the same time, and each round says who averages with
whom, and what: gradients before the optimizer's step (BSP), or parameters after it (DS-Sync, gossip, local SGD). In a ``Serving``
strategy workers push gradients to parameter servers and pull parameters from them, each at its own pace (ASP), or at most so
many steps ahead of the slowest (SSP). Whoever executes them, in memory or on a network, asks these objects and nothing else.

What is averaged is only what is named: parameters or gradients. Each worker keeps its own optimizer state (momentum) and its own
running statistics of batch normalization. Averaging these too would send two or three times the bytes; momentum that stays
behind is that of the worker's own gradients, which is what the paper's local step means, and running statistics do nothing
during training. Where a model is evaluated, statistics are averaged over all workers, or computed anew for an ensemble.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from weft.errors import InputError
from weft.groups import WHOLE, Contention, Meeting, Part, Pattern, Round, Speeds, in_parts

What = Literal["gradients", "parameters"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is averaged in a step, and among whom."""

    what: What
    round: Round
    part: Part = WHOLE
    """of every tensor"""


@dataclass(frozen=True, slots=True)
class Averaging:
    """All workers in step: ``what`` is averaged as the pattern says."""

    name: str
    what: What
    pattern: Pattern
    ensemble: float | None = None
    """the factor of every worker's exponential average of its parameters, which become one model at the end; None: no such"""
    contention: Contention | None = None
    """where the pattern follows what is slow: who is, as far as is known"""
    parts: int = 1
    """of which one is averaged in a step; the pattern is one of rounds that last so many steps"""

    def __post_init__(self) -> None:
        if self.ensemble is not None and not 0 <= self.ensemble < 1:
            raise InputError(f"a factor of {self.ensemble} is not possible: it must be 0 or more, and less than 1")

    @property
    def exact(self) -> bool:
        """Whether the result is that of one worker with all the data."""
        return self.what == "gradients" and self.pattern.period == 1

    def exchange(self, step: int) -> Exchange:
        return Exchange(self.what, self.pattern.round(step), Part(step % self.parts, self.parts))

    def adjusted(self, meetings: Iterable[Meeting]) -> Averaging:
        """The strategy for who is slow after these measurements: the same object where nothing changes.

        All workers must give the same meetings; then all go on with the same pattern.
        """
        if self.contention is None:
            return self
        return self._with(self.contention.after_meetings(meetings))

    def following(self, speeds: Speeds) -> Averaging:
        """The strategy for these speeds, where somebody measures them in another way."""
        return self if self.contention is None else self._with(self.contention.after(speeds))

    def as_known(
        self,
        slow_workers: tuple[int, ...],
        slow_uplinks: tuple[int, ...],
        times: tuple[tuple[str, int, int], ...] = (),
        halved: tuple[int, ...] = (),
    ) -> Averaging:
        """The strategy where these are known to be slow, as a saved training says."""
        if self.contention is None:
            return self
        known = replace(self.contention, slow_workers=slow_workers, slow_uplinks=slow_uplinks, times=times)
        return self._with(replace(known, halved=halved))

    def _with(self, after: Contention) -> Averaging:
        before = self.contention
        if before is None or after == before:
            return self
        if self.parts > 1:
            after = replace(after, halved=())  # what is sent is a part already
        slow = [(one.slow_workers, one.slow_uplinks, one.halved) for one in (before, after)]
        pattern = self.pattern if slow[0] == slow[1] else in_parts(after.pattern, self.parts)
        return replace(self, contention=after, pattern=pattern)


@dataclass(frozen=True, slots=True)
class Serving:
    """Every worker at its own pace, around parameter servers; at most ``bound`` steps ahead of the slowest, if there is one.

    A server applies a gradient when it comes, divided by the number of workers: after one push of everybody the parameters have
    moved as far as by one step of all together.
    """

    name: str
    workers: tuple[int, ...]
    bound: int | None = None
    servers: int | None = None
    """of the workers, so many are servers, too; None: all are"""

    def __post_init__(self) -> None:
        if self.bound is not None and self.bound < 0:
            raise InputError(f"a staleness bound of {self.bound} is not possible: it must be 0 or more")

    @property
    def exact(self) -> bool:
        return False


Strategy = Averaging | Serving


def ensemble_weight(factor: float, step: int) -> float:
    """What the parameters after step 0, 1, ... weigh in their exponential average.

    The first ones weigh as in a plain mean, so that the random start does not stay in it.
    """
    return max(1 - factor, 1 / (step + 1))
