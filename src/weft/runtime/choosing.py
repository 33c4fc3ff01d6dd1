"""Which of several plans is fastest on the network at hand: predictions bring a few of them close, measuring decides.

The plans take turns, so that what else happens on the machines falls on all alike.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch
import torch.distributed as dist

from weft.planning import Plan
from weft.runtime.communicator import Communicator
from weft.runtime.pacing import pacing_of
from weft.runtime.turns import slowest, timed

TURNS = 5
WORTH_PACING = 0.05
"""Plans that take fewer seconds are over before queues matter."""
FASTER = 0.99
"""A paced plan must take at most that part of the time."""
BEHIND = 1.2
"""Whatever takes so many times as long as the fastest in a turn is not tried again."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A plan and the seconds that it took, turn by turn; the first turn, which connects, only if there is no other."""

    plan: Plan
    times: tuple[float, ...]
    paced: bool = False
    """whether its connections hold back"""

    @property
    def seconds(self) -> float:
        return median(self.times)


def tried(
    communicator: Communicator,
    plans: Sequence[Plan],
    group: dist.ProcessGroup | None = None,
    seconds: float = 30.0,
) -> list[Tried]:
    """All plans, the fastest first; measured on zeros, in about so many seconds. Called by all ranks together."""
    if len(plans) == 1:
        return [Tried(plans[0], (plans[0].seconds,))]
    times: list[list[float]] = [[] for _ in plans]
    begun = time.monotonic()
    for turn in range(TURNS + 1):
        least = min(taken[-1] for taken in times) if turn else 0.0
        for plan, taken in zip(plans, times, strict=True):
            if turn <= 1 or taken[-1] <= BEHIND * least:
                taken.append(_turn(communicator, plan, group))
        if turn and slowest([time.monotonic() - begun], group)[0] > seconds:
            break
    found = [Tried(plan, tuple(taken[1:] or taken)) for plan, taken in zip(plans, times, strict=True)]
    return sorted(found, key=lambda one: one.seconds)


def paced(
    communicator: Communicator, best: Tried, group: dist.ProcessGroup | None = None, seconds: float = 20.0
) -> Tried:
    """The same plan with its connections held back, if that is faster; it then stays so. Called by all ranks together."""
    if best.plan.seconds < WORTH_PACING or not communicator.transport.keeps_tags_apart:
        return best  # NCCL's connections are not this process's
    if communicator.pacing is None:
        communicator.pacing = pacing_of(group)
    pacing = communicator.pacing
    if pacing is None:
        return best
    times: tuple[list[float], list[float]] = ([], [])
    begun = time.monotonic()
    for _ in range(TURNS):
        pacing.drop(best.plan)
        times[0].append(_turn(communicator, best.plan, group))
        pacing.adopt(best.plan)
        times[1].append(_turn(communicator, best.plan, group))
        if slowest([time.monotonic() - begun], group)[0] > seconds:
            break
    if median(times[1]) <= FASTER * median(times[0]):
        return Tried(best.plan, tuple(times[1]), True)
    pacing.drop(best.plan)
    return Tried(best.plan, tuple(times[0]))


def _turn(communicator: Communicator, plan: Plan, group: dist.ProcessGroup | None) -> float:
    tensor = torch.zeros(max(1, plan.nbytes // 4))
    return slowest([timed(lambda: communicator.launch(plan, tensor, "sum", here=True).wait(), group)], group)[0]
