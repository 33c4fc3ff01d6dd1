"""How long a round takes on a network: every group has a schedule made for it, and all of them are simulated at once.

A group's schedule is that of a collective on the same network with only the group active: it is proved like any other, and
its transfers take the links of the whole network. Several groups become one list of transfers in which each has chunks of
its own, so that nothing waits for another group, but all share the links. (Such a list is no all-reduce, and is never
executed: it is made to be simulated.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import lcm

import numpy as np

from weft.collectives import COLLECTIVES
from weft.errors import InputError
from weft.groups.parts import each_round_once
from weft.groups.rounds import Group, Pattern, Round
from weft.network import Network
from weft.planning.costs import Costs
from weft.proof import verify
from weft.schedule import COPY, MOST_WEIGHT, Longs, Schedule
from weft.simulation import Conditions, Simulation, simulate

CANDIDATES = ("ring-ordered", "hierarchical", "halving-doubling", "double-binary-tree")
"""What a group may take, if nothing is said; the fastest for the group alone is chosen."""
MOST_ROUNDS = 64
"""No more rounds of a pattern are simulated."""


@dataclass(frozen=True, slots=True)
class RoundTime:
    """How long a round takes, until the last group is done; and each group and each worker."""

    seconds: float
    groups: dict[Group, float]
    workers: dict[int, float]
    nbytes: float = 0.0
    """that all workers send together"""


@dataclass(frozen=True, slots=True)
class PatternTime:
    """Over the rounds of a pattern: the mean, and the longest."""

    seconds: float
    longest: float
    rounds: int


@dataclass
class GroupTimes:
    """Times of groups on one network, for one size; schedules and times are kept."""

    network: Network
    nbytes: float
    conditions: Conditions | None = None
    costs: Costs = field(default_factory=Costs)
    collective: str | None = None
    """by name; if left out, the fastest of a few for every group"""
    given: tuple[Schedule, ...] = ()
    """schedules that are to be taken for those who take part in them"""
    _schedules: dict[Group, Schedule] = field(default_factory=dict, repr=False)
    _rounds: dict[Round, RoundTime] = field(default_factory=dict, repr=False)

    def schedule(self, group: Group) -> Schedule:
        """How a group averages: for the whole network's workers, of whom only the group takes part."""
        for schedule in self.given:
            if schedule.participants == group:
                return schedule
        if group not in self._schedules:
            network = self.network.with_active(self.network.workers[rank] for rank in group)
            names = CANDIDATES if self.collective is None else (self.collective,)
            found = [_made(name, network) for name in names]
            if len(found) > 1:
                found.sort(key=lambda one: self._alone(one).seconds)
            verify(found[0])
            self._schedules[group] = found[0]
        return self._schedules[group]

    def _alone(self, schedule: Schedule) -> Simulation:
        return simulate(schedule, self.network, self.nbytes, **asdict(self.costs))

    def round(self, which: Round) -> RoundTime:
        """All groups of a round at once, under the conditions."""
        if which not in self._rounds:
            self._rounds[which] = self._simulated(which)
        return self._rounds[which]

    def _simulated(self, which: Round) -> RoundTime:
        groups = [group for group in which.groups if len(group) > 1]
        if not groups:
            return RoundTime(0.0, {}, {})
        if which.sends:
            schedule, tensors = sent_schedule(len(self.network.workers), which.sends), float(len(which.sends))
        else:
            parts = [which.part_of(group).parts for group in groups]
            schedule, tensors = (
                side_by_side([self.schedule(group) for group in groups], parts),
                sum(1 / n for n in parts),
            )
        found = simulate(schedule, self.network, tensors * self.nbytes, self.conditions, **asdict(self.costs))
        workers: dict[int, float] = {}
        for ends in (schedule.source, schedule.destination):
            last = np.zeros(schedule.workers)
            np.maximum.at(last, ends, found.ended)
            for rank in np.flatnonzero(last).tolist():
                workers[rank] = max(float(last[rank]), workers.get(rank, 0.0))
        sent = float(schedule.transfer_bytes(tensors * self.nbytes).sum())
        ends_of = {group: max(workers[rank] for rank in group) for group in groups}
        return RoundTime(found.seconds, ends_of, workers, sent)

    def pattern(self, pattern: Pattern, most: int = MOST_ROUNDS) -> PatternTime:
        """Over a period, or the first rounds of it."""
        once = each_round_once(pattern)
        times = [self.round(once.round(step)).seconds for step in range(min(once.period, most))]
        return PatternTime(sum(times) / len(times), max(times), len(times))


def side_by_side(schedules: Sequence[Schedule], parts: Sequence[int] = ()) -> Schedule:
    """Several schedules as one list, each for a tensor of its own, all of one size: together as many times the bytes.

    With ``parts``, each has only one of so many parts of that.
    """
    workers = {schedule.workers for schedule in schedules}
    if len(workers) != 1:
        raise InputError(f"schedules for {sorted(workers)} workers cannot run side by side: it must be one number")
    weights = _of_one_weight(schedules, parts or [1] * len(schedules))
    first = np.cumsum([0, *(len(schedule.chunk_weights) for schedule in schedules)]).tolist()
    chunks = [schedule.chunk + first[i] for i, schedule in enumerate(schedules)]
    return Schedule.of(
        workers.pop(),
        np.concatenate(weights),
        np.concatenate([schedule.source for schedule in schedules]),
        np.concatenate([schedule.destination for schedule in schedules]),
        np.concatenate(chunks),
        np.concatenate([schedule.op for schedule in schedules]),
        np.concatenate([schedule.span for schedule in schedules]),
        sorted({rank for schedule in schedules for rank in schedule.participants}),
        "side_by_side",
    )


def _of_one_weight(schedules: Sequence[Schedule], parts: Sequence[int]) -> list[Longs]:
    """The chunks' weights, such that every schedule's have the same sum, or one part of it: exactly, unless that needs too large
    numbers."""
    wholes = [schedule.whole * count for schedule, count in zip(schedules, parts, strict=True)]
    whole = lcm(*wholes)
    if whole * len(schedules) < MOST_WEIGHT:
        return [schedule.chunk_weights * (whole // own) for schedule, own in zip(schedules, wholes, strict=True)]
    about = MOST_WEIGHT // (4 * len(schedules))
    return [
        np.array([weight * about // own for weight in schedule.chunk_weights.tolist()], dtype=np.int64)
        for schedule, own in zip(schedules, wholes, strict=True)
    ]


def sent_schedule(workers: int, sends: Sequence[tuple[int, int]]) -> Schedule:
    """Everybody who sends sends its whole tensor, at once, and waits for nothing."""
    return Schedule.of(
        workers, len(sends), [source for source, _ in sends], [destination for _, destination in sends],
        np.arange(len(sends)), np.full(len(sends), COPY), name="sends",
    )  # fmt: skip


def _made(name: str, network: Network) -> Schedule:
    if name not in COLLECTIVES:
        raise InputError(f"there is no collective {name!r}: there are {', '.join(COLLECTIVES)}")
    return COLLECTIVES[name](network)
