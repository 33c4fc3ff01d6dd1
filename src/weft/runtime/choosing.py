"""Which of several plans is fastest on the network at hand: predictions bring a few of them close, measuring decides.

The plans take turns, so that what else happens on the machines falls on all alike. The fastest is then tried with its connections
held back, and in more segments, which predictions tell less well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median

import torch
import torch.distributed as dist

from weft.planning import Costs, Plan
from weft.planning.candidates import CLOSE
from weft.planning.plan import SHORT_PLAN
from weft.proof import verify
from weft.runtime.communicator import Communicator
from weft.runtime.pacing import pacing_of
from weft.runtime.turns import slowest, timed
from weft.simulation import simulate

TURNS, MOST_TURNS, SHORT = 5, 20, 2.0
"""Turns that count; and at most, as long as all take no more than so many seconds: short ones vary more."""
WORTH_PACING = 0.05
"""Plans that take fewer seconds are over before queues matter."""
FASTER = 0.99
"""A paced plan, or one in more segments, must take at most that part of the time."""
LEAST_MESSAGE = 16_384
"""Chunks are not cut into pieces of fewer bytes."""
BEHIND = 1.2
"""What takes so many times as long as the fastest, both at their best, is not tried again."""


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
    at_once: int | None = None,
) -> list[Tried]:
    """All that were tried, the fastest first; measured on zeros. Called by all ranks together.

    Of the first ``at_once`` plans, or of all, those that are predicted to be about as fast as the very first are tried. Where
    the fastest takes longer than others are predicted to, predictions are bad, and these are tried too. Either takes about so
    many seconds.
    """
    if len(plans) == 1:
        return [Tried(plans[0], (plans[0].seconds,))]
    first = [plan for plan in plans[:at_once] if plan.seconds <= max(CLOSE * plans[0].seconds, SHORT_PLAN)]
    found = _tried(communicator, first, group, seconds)
    known = {plan.digest for plan in first}
    others = [plan for plan in plans if plan.digest not in known and plan.seconds < FASTER * found[0].seconds]
    if others:
        again = _tried(communicator, [found[0].plan, *others], group, seconds)
        found = sorted([*again, *found[1:]], key=lambda one: one.seconds)
    return found


def _tried(
    communicator: Communicator, plans: Sequence[Plan], group: dist.ProcessGroup | None, seconds: float
) -> list[Tried]:
    """These plans in turn, the fastest first."""
    times: list[list[float]] = [[] for _ in plans]
    begun = time.monotonic()
    for turn in range(MOST_TURNS + 1):
        at_best = [min(taken[1:]) if turn > 1 else 0.0 for taken in times]
        for plan, taken, best in zip(plans, times, at_best, strict=True):
            if best <= BEHIND * min(at_best):
                taken.append(_turn(communicator, plan, group))
        if turn and slowest([time.monotonic() - begun], group)[0] > (seconds if turn < TURNS else SHORT):
            break
    found = [Tried(plan, tuple(taken[1:] or taken)) for plan, taken in zip(plans, times, strict=True)]
    return sorted(found, key=lambda one: one.seconds)


def paced(
    communicator: Communicator,
    best: Tried,
    costs: Costs,
    group: dist.ProcessGroup | None = None,
    seconds: float = 20.0,
) -> Tried:
    """The same plan with its connections held back, if that is faster; it then stays so. Called by all ranks together.

    Connections that hold back share their links as planned, so unfairness has no part in what is then predicted.
    """
    if best.plan.seconds < WORTH_PACING or not communicator.transport.keeps_tags_apart:
        return best  # NCCL's connections are not this process's
    if communicator.pacing is None:
        communicator.pacing = pacing_of(group)
    pacing = communicator.pacing
    if pacing is None:
        return best

    def free() -> float:
        pacing.drop(best.plan)
        return _turn(communicator, best.plan, group)

    def held_back() -> float:
        pacing.adopt(best.plan)
        return _turn(communicator, best.plan, group)

    times = _in_turn(free, held_back, group, seconds)
    if median(times[1]) <= FASTER * median(times[0]):
        return Tried(_predicted(best.plan, replace(costs, unfairness=0.0)), times[1], True)
    pacing.drop(best.plan)
    return Tried(best.plan, times[0])


def refined(
    communicator: Communicator,
    best: Tried,
    costs: Costs,
    group: dist.ProcessGroup | None = None,
    seconds: float = 20.0,
) -> Tried:
    """The same plan in twice the segments, and so on, as long as that is faster. Called by all ranks together."""
    ends = time.monotonic() + seconds
    pacing = communicator.pacing if best.paced else None
    if best.paced:
        costs = replace(costs, unfairness=0.0)
    while slowest([time.monotonic() - ends], group)[0] < 0 and (finer := _finer(best.plan, costs)) is not None:
        if pacing is not None:
            pacing.adopt(finer)
        now, then = (partial(_turn, communicator, plan, group) for plan in (best.plan, finer))
        then()  # makes its program, and all ranks agree on it
        times = _in_turn(now, then, group, ends - time.monotonic())
        worse = median(times[1]) > FASTER * median(times[0])
        if pacing is not None:
            pacing.drop(finer if worse else best.plan)
        if worse:
            return replace(best, times=times[0])
        best = Tried(finer, times[1], best.paced)
    return best


def _finer(plan: Plan, costs: Costs) -> Plan | None:
    """In twice the segments; none if its pieces get too small, or if its segments are not all alike."""
    segments = 2 * plan.segments
    if plan.whole.sliced(plan.segments).digest != plan.digest:
        return None
    schedule = plan.whole.sliced(segments)
    if plan.nbytes < LEAST_MESSAGE * len(schedule.chunk_weights):
        return None
    verify(schedule)
    return _predicted(replace(plan, schedule=schedule, segments=segments), costs)


def _predicted(plan: Plan, costs: Costs) -> Plan:
    """With the time that it should take by these costs."""
    return replace(plan, seconds=simulate(plan.schedule, plan.network, plan.nbytes, **asdict(costs)).seconds)


def _in_turn(
    one: Callable[[], float], other: Callable[[], float], group: dist.ProcessGroup | None, seconds: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What the two take, one after the other, in about so many seconds."""
    times: tuple[list[float], list[float]] = ([], [])
    begun = time.monotonic()
    for turn in range(1, MOST_TURNS + 1):
        times[0].append(one())
        times[1].append(other())
        allowed = seconds if turn < TURNS else min(seconds, SHORT)
        if slowest([time.monotonic() - begun - allowed], group)[0] > 0:
            break
    return tuple(times[0]), tuple(times[1])


def _turn(communicator: Communicator, plan: Plan, group: dist.ProcessGroup | None) -> float:
    tensor = torch.zeros(max(1, plan.nbytes // 4), device=communicator.device)
    return slowest([timed(lambda: communicator.launch(plan, tensor, "sum", here=True).wait(), group)], group)[0]
