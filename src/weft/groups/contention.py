"""Contention: which workers and uplinks are slow now, from how long groups took, and the pattern that follows.

How fast a group was is told as a part of what was expected of it (from a simulation of the group on the network at rest, say), so
that small and large groups, near and far ones, slow and fast networks compare. A group is as fast as the slowest of its workers
and uplinks. So a worker is at least as fast as the fastest of the groups it was in, and that is taken for its speed; an uplink
likewise, by the groups that cross it. Shuffling makes sure that the fast ones are seen apart from the slow ones. Where
one group crosses all uplinks, all look as slow as the slowest; then all are paired, and the pairs tell them apart. Once
somebody is known to be slow, groups with it are not held against the others.

Slow is whoever is below ``slow`` of the fastest that was seen at the same time: if everything is slow, nothing is. On emulated
racks a background flow left groups of 25 MB 72% to 79% of their speed, while all others were within 2% of each other, so 0.82
lies between. Who is slow stays so until it was above ``well`` for several times in a row. Between the two nothing changes: no
flapping. A slow uplink below ``halved`` is crossed by half of every tensor in a step, until it was above ``whole`` for as many
times. All is computed from numbers that every rank has, in the same order, so all ranks decide alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low

from weft.errors import InputError
from weft.groups.divide_and_shuffle import DivideAndShuffle, divide_and_shuffle
from weft.groups.racks import Rack
from weft.groups.rounds import Group

EVERY = 100
"""Steps after which a pattern may be adjusted, as in the paper."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """One group in one step: how long its average took, and how long it was expected to take."""

    group: Group
    seconds: float
    expected: float

    def __post_init__(self) -> None:
        if not (0 < self.seconds < math.inf and 0 < self.expected < math.inf):
            raise InputError(f"{self} is not possible: both times must be above 0")


@dataclass(frozen=True, slots=True)
class Speeds:
    """How fast workers (by rank) and uplinks (by number of the rack) are, as parts of what was expected; some may be unknown."""

    workers: Mapping[int, float]
    uplinks: Mapping[int, float]

    def __post_init__(self) -> None:
        for what, found in (("worker", self.workers), ("uplink", self.uplinks)):
            for number, speed in found.items():
                if not 0 < speed < math.inf:
                    raise InputError(f"the speed {speed} of {what} {number} is not possible: it must be above 0")


def speeds_of(
    racks: Sequence[Rack],
    meetings: Iterable[Meeting],
    slow_workers: Iterable[int] = (),
    slow_uplinks: Iterable[int] = (),
) -> Speeds:
    """The speeds that groups prove: of those with the same members the median, of those of a worker the fastest.

    A group with somebody who is known to be slow says of the others only that they are at least as fast. Whoever was in no
    other group is left out.
    """
    home = {rank: number for number, rack in enumerate(racks) for rank in rack.ranks}
    seen: dict[Group, list[float]] = {}
    for meeting in meetings:
        if len(meeting.group) > 1:
            seen.setdefault(meeting.group, []).append(meeting.expected / meeting.seconds)
    known = {("worker", rank) for rank in slow_workers} | {("uplink", number) for number in slow_uplinks}
    fastest: dict[tuple[str, int], float] = {}
    judged: set[tuple[str, int]] = set()
    for group, found in seen.items():
        crossed = {home[rank] for rank in group}
        members = {("worker", rank) for rank in group}
        members |= {("uplink", number) for number in crossed} if len(crossed) > 1 else set()
        judged |= members & known or members
        for member in members:
            fastest[member] = max(median_low(found), fastest.get(member, 0.0))
    told = {member: fastest[member] for member in sorted(judged)}
    return Speeds(
        {number: speed for (kind, number), speed in told.items() if kind == "worker"},
        {number: speed for (kind, number), speed in told.items() if kind == "uplink"},
    )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When somebody counts as slow, and when no longer: parts of the fastest, and how many times in a row.

    The pair that crosses an uplink sends 3/4 of what a home group of three does, so from 0.6 on it is what a step waits for.
    """

    slow: float = 0.82
    well: float = 0.9
    halved: float = 0.6
    whole: float = 0.75
    slow_times: int = 1
    well_times: int = 2

    def __post_init__(self) -> None:
        for low, high in ((self.slow, self.well), (self.halved, self.whole)):
            if not 0 < low <= high <= 1:
                raise InputError(
                    f"thresholds of {low} and {high} are not possible: 0 < slow <= well <= 1 is needed, and of halved and whole"
                )
        if self.slow_times < 1 or self.well_times < 1:
            raise InputError(f"{self.slow_times} and {self.well_times} times are not possible: at least 1 is needed")


@dataclass(frozen=True, slots=True)
class Contention:
    """Who is slow now. ``after`` gives what is known after the next measurements."""

    racks: tuple[Rack, ...]
    thresholds: Thresholds = field(default_factory=Thresholds)
    slow_workers: tuple[int, ...] = ()
    slow_uplinks: tuple[int, ...] = ()
    halved: tuple[int, ...] = ()
    """the racks whose uplinks are crossed by half of every tensor in a step, as long as they are slow"""
    times: tuple[tuple[str, int, int], ...] = ()
    """(kind, number, how many times in a row it was seen to be otherwise than it counts)"""

    def after(self, speeds: Speeds) -> Contention:
        """What is known after these measurements; whoever was not measured stays as it is."""
        best = max([*speeds.workers.values(), *speeds.uplinks.values()], default=0.0)
        times = {(kind, number): count for kind, number, count in self.times}
        limits = self.thresholds.slow * best, self.thresholds.well * best
        workers = self._judged("worker", speeds.workers, self.slow_workers, limits, times)
        uplinks = self._judged("uplink", speeds.uplinks, self.slow_uplinks, limits, times)
        limits = self.thresholds.halved * best, self.thresholds.whole * best
        halved = self._judged("halved", speeds.uplinks, self.halved, limits, times)
        kept = tuple(sorted((kind, number, count) for (kind, number), count in times.items() if count))
        return replace(self, slow_workers=workers, slow_uplinks=uplinks, halved=halved, times=kept)

    def after_meetings(self, meetings: Iterable[Meeting]) -> Contention:
        """What is known after groups met, by how long they took."""
        return self.after(speeds_of(self.racks, meetings, self.slow_workers, self.slow_uplinks))

    def _judged(
        self,
        kind: str,
        speeds: Mapping[int, float],
        known: tuple[int, ...],
        limits: tuple[float, float],
        times: dict[tuple[str, int], int],
    ) -> tuple[int, ...]:
        slow, (low, high) = set(known), limits
        for number, speed in sorted(speeds.items()):
            is_slow = number in slow
            otherwise = speed >= high if is_slow else speed < low
            count = times.get((kind, number), 0) + 1 if otherwise else 0
            if count >= (self.thresholds.well_times if is_slow else self.thresholds.slow_times):
                slow ^= {number}
                count = 0
            times[kind, number] = count
        return tuple(sorted(slow))

    @property
    def pattern(self) -> DivideAndShuffle:
        """The pattern for who is slow now; the original one if nobody is."""
        return divide_and_shuffle(self.racks, self.slow_workers, self.slow_uplinks, self.halved)

    def __str__(self) -> str:
        half = " (crossed by halves)"
        uplinks = [
            f"the uplink of {self.racks[number].name}{half * (number in self.halved)}" for number in self.slow_uplinks
        ]
        return ", ".join([*(f"worker {rank}" for rank in self.slow_workers), *uplinks]) or "nobody is slow"
