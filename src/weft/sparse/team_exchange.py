"""Spar-All-Gather: workers at the same place of different teams make one of their blocks.

R-SAG, for powers of two, exchanges blocks pairwise and selects after every exchange; both sides, and whoever has the same sum,
drop the same and share it. B-SAG, for any number, lets every team send fewer at first, h, so that the union has about as
many as wanted: h follows from call to call what came out of the call before (Algorithm 2, with its errata).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.sparse.gathering import bruck, bruck_receives
from weft.sparse.pairs import Pairs, added, added_up
from weft.sparse.rounds import Part, Receives, Round
from weft.sparse.task import Task
from weft.sparse.wire import Span

FIRST_STEP = 0.01
"""Of the room that h has."""


@dataclass(frozen=True, slots=True)
class Between:
    """One worker's part between the teams: ``fellows`` are the workers at its place by team, and its block is ``span``."""

    task: Task
    fellows: Sequence[int]
    team: int
    span: Span
    nominal: int
    recursive: bool

    def receives(self) -> Receives:
        """What the rounds will expect."""
        room = self.task.most_bytes([self.span], self.task.quota.kept(self.span, self.nominal))
        if not self.recursive:
            return bruck_receives(self.fellows, self.team, [room] * len(self.fellows))
        return [(self.fellows[self.team ^ 1 << t], room) for t in range(len(self.fellows).bit_length() - 1)]

    def exchanged(self, mine: Pairs, announced: bool) -> Part[Pairs]:
        """What all teams have in the block, or its strongest. ``announced``: an earlier round has said what these expect."""
        return _recursive(self, mine, announced) if self.recursive else _bruck(self, mine, announced)


def _recursive(between: Between, mine: Pairs, announced: bool) -> Part[Pairs]:
    """R-SAG, for as many teams as a power of two."""
    task, span, holders = between.task, between.span, 1
    receives = between.receives()
    ahead = () if announced else receives[1:]
    for partner, room in receives:
        arrived = yield Round({partner: task.message([mine], [span])}, {partner: room}, None, ahead)
        (theirs,) = task.opened(arrived[partner], [span])
        holders, ahead = 2 * holders, ()
        mine = task.reduced(added(mine, theirs), span, between.nominal, holders=holders)
    return mine


def _bruck(between: Between, mine: Pairs, announced: bool) -> Part[Pairs]:
    """B-SAG."""
    task, span, nominal, fellows = between.task, between.span, between.nominal, between.fellows
    teams, wanted = len(fellows), task.quota.kept(span, nominal)
    width = Width.recalled(task.memory, wanted, teams)
    mine = task.reduced(mine, span, nominal, holders=1, part=width.part)
    most = task.most_bytes([span], wanted)
    items = yield from bruck(fellows, between.team, task.message([mine], [span]), [most] * teams, announced=announced)
    total = added_up([task.opened(item.data, [span])[0] for item in items])
    width.follow(len(total))
    width.remember(task.memory)
    return task.reduced(total, span, nominal, holders=teams)


class Width:
    """h, as a number that need not be whole, and the step by which it changes next."""

    def __init__(self, wanted: int, teams: int, h: float, step: float, again: bool) -> None:
        self.wanted, self.teams = wanted, teams
        self.h, self.step, self.again = h, step, again

    @staticmethod
    def recalled(memory: dict[str, object], wanted: int, teams: int) -> Width:
        """As remembered; or the first, which is the least, as for teams that do not overlap at all."""
        kept = memory.get("width")
        if isinstance(kept, list) and kept[0] == wanted and kept[1] == teams:
            return Width(wanted, teams, float(kept[2]), float(kept[3]), bool(kept[4]))
        first = max(1.0, FIRST_STEP * (wanted - wanted / teams))
        return Width(wanted, teams, wanted / teams, first, again=False)

    def remember(self, memory: dict[str, object]) -> None:
        memory["width"] = [self.wanted, self.teams, self.h, self.step, self.again]

    @property
    def part(self) -> float:
        """h as a part of what is wanted."""
        return self.h / self.wanted if self.wanted else 1.0

    def follow(self, came_out: int) -> None:
        """The union had so many: take more or fewer the next time, in longer steps while the direction is right."""
        if (came_out > self.wanted) != (self.step > 0):
            if self.again:
                self.step *= 2
            self.again = not self.again
        else:
            self.step, self.again = -self.step / 2, False
        least = self.wanted / self.teams
        reach = max(1.0, self.wanted - least)
        self.step = max(-reach, min(reach, self.step))
        self.h = max(least, min(float(self.wanted), self.h + self.step))
