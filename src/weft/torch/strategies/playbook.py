"""Playbook: how each group of a pattern averages, and how long that should take: made by rank 0, the same on all ranks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from weft.collectives import COLLECTIVES
from weft.groups import Group, GroupTimes, Pattern, Round, each_round_once
from weft.network import Network
from weft.runtime.communicator import Communicator
from weft.runtime.grouping import check_alone
from weft.schedule import Schedule

MOST_ROUNDS = 256
"""of a pattern whose groups are planned for ahead; groups that first meet later take a ring"""
SECONDS = 600.0
"""in which rank 0 must have made it"""
MESSAGE = 1_000_000
"""Bytes of a message at about which chunks are cut: a chunk is added up and passed on while the next one is on its way."""
MOST_SEGMENTS = 8


@dataclass(frozen=True, slots=True)
class Playbook:
    """Schedules and expected seconds, by group. Groups of one, and those who only send, are not in it."""

    schedules: dict[Group, Schedule]
    expected: dict[Group, float]
    """on the network at rest, for all parameters"""
    digest: str
    network: Network
    _cut: dict[tuple[Group, int], Schedule] = field(default_factory=dict, repr=False)

    def schedule(self, which: Round, rank: int, nbytes: int) -> Schedule | None:
        """What the group of a rank executes for so many bytes; None where there is nothing to."""
        group = which.group_of(rank)
        if which.sends or len(group) == 1:
            return None
        if group not in self.schedules:
            network = self.network.with_active(self.network.workers[rank] for rank in group)
            self.schedules[group] = COLLECTIVES["ring-ordered"](network)
        whole = self.schedules[group]
        segments = segments_of(whole, nbytes)
        if (group, segments) not in self._cut:
            self._cut[group, segments] = whole.segmented(segments)
        return self._cut[group, segments]

    def expected_of(self, which: Round) -> dict[Group, float]:
        return {group: self.expected[group] for group in which.groups if group in self.expected}


def segments_of(schedule: Schedule, nbytes: int) -> int:
    """Into how many a schedule's chunks are cut for a tensor of so many bytes."""
    return max(1, min(MOST_SEGMENTS, nbytes // (len(schedule.chunk_weights) * MESSAGE)))


def shared_playbook(us: Communicator, pattern: Pattern, times: GroupTimes) -> Playbook:
    """The playbook of rank 0, on every rank; all call this together."""
    return playbook_of(us.from_rank_0(lambda: playbook_text(pattern, times), SECONDS), times.network)


def playbook_text(pattern: Pattern, times: GroupTimes) -> str:
    """All groups of a pattern with their schedules and times, as JSON."""
    groups: dict[Group, float] = {}
    for which in rounds_of(pattern):
        for group, seconds in times.round(which).groups.items():
            groups.setdefault(group, seconds)
    sent = any(which.sends for which in rounds_of(pattern))
    entries = [
        [list(group), "" if sent else times.schedule(group).to_text(), seconds] for group, seconds in groups.items()
    ]
    return json.dumps(entries)


def rounds_of(pattern: Pattern) -> Sequence[Round]:
    once = each_round_once(pattern)
    return [once.round(step) for step in range(min(once.period, MOST_ROUNDS))]


def playbook_of(text: str, network: Network) -> Playbook:
    """The inverse. Every schedule is proved when it is first executed."""
    schedules: dict[Group, Schedule] = {}
    expected: dict[Group, float] = {}
    for ranks, body, seconds in json.loads(text):
        expected[tuple(ranks)] = float(seconds)
        if body:
            schedules[tuple(ranks)] = Schedule.parse(body)
            check_alone(schedules[tuple(ranks)])
    return Playbook(schedules, expected, sha256(text.encode()).hexdigest(), network)
