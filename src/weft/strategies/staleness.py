"""Who may go on, and who comes when, where workers do not wait for all others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from weft.errors import InputError


@dataclass
class StalenessClock:
    """How many steps each worker has finished, and whether it may begin another one (Ho et al. 2013).

    With a bound s, a worker that has finished c steps waits until everybody has finished c - s. So no two workers are ever more
    than s + 1 finished steps apart, and with s = 0 all begin a step together, as in BSP. Without a bound nobody waits.
    """

    workers: tuple[int, ...]
    bound: int | None
    finished: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.finished = dict.fromkeys(self.workers, 0) | self.finished

    @property
    def slowest(self) -> int:
        return min(self.finished.values())

    def may_begin(self, worker: int) -> bool:
        return self.bound is None or self.finished[worker] - self.slowest <= self.bound

    def finish(self, worker: int) -> None:
        """A worker's gradient has been applied."""
        if not self.may_begin(worker):
            raise InputError(
                f"worker {worker} has finished step {self.finished[worker]} although the slowest has {self.slowest}, and "
                f"the bound is {self.bound}: it must not have begun"
            )
        self.finished[worker] += 1


@dataclass(frozen=True, slots=True)
class Arrival:
    """A worker's gradient is applied: when, of which of its steps (from 0), and how many were since it had its parameters."""

    seconds: float
    worker: int
    step: int
    staleness: int
    waited: float
    """how long the worker had to wait for others before it began"""
    begins: tuple[int, ...] = ()
    """the workers that pull parameters and begin a step, once this gradient is applied"""


def arrivals(cycles: Mapping[int, float], bound: int | None, steps: int) -> Iterator[Arrival]:
    """Who comes when, if each worker's step takes its ``cycles[worker]`` seconds; until everybody has finished ``steps``.

    A worker that has done its steps goes on, as the others need somebody ahead of them to be slow against; what comes after the
    slowest has done is left out. At the same moment the lower rank comes first.
    """
    for worker, cycle in cycles.items():
        if not 0 < cycle < math.inf:
            raise InputError(f"a step of {cycle} s of worker {worker} is not possible: it must be above 0")
    clock = StalenessClock(tuple(sorted(cycles)), bound)
    coming: list[tuple[float, int]] = []
    waiting: dict[int, float] = {}
    waited = dict.fromkeys(cycles, 0.0)
    held = dict.fromkeys(cycles, 0)
    applied = 0
    for worker in clock.workers:
        heappush(coming, (cycles[worker], worker))
    while clock.slowest < steps:
        now, worker = heappop(coming)
        came = Arrival(now, worker, clock.finished[worker], applied - held[worker], waited[worker])
        clock.finish(worker)
        applied += 1
        waiting[worker] = now
        begins = tuple(other for other in sorted(waiting) if clock.may_begin(other))
        for other in begins:
            waited[other] = now - waiting.pop(other)
            held[other] = applied
            heappush(coming, (now + cycles[other], other))
        yield replace(came, begins=begins)
