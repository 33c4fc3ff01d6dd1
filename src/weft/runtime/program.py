"""What one rank does in a schedule: compiled once, executed often.

A message is a transfer seen from one of its ends. An incoming message may be applied when the writes before it are applied
and what is still to be read from its cells has been sent; an outgoing one may be sent when the writes that it carries are
applied. Cells without elements are left out: every rank computes the same boundaries, so both ends agree that a
message without bytes does not exist.

**Direct messages.** A copy may be received into the tensor itself, long before it is its turn, if nothing can still be
reading or writing there when its bytes arrive. That is so when it is the last write into its cells at a participant,
and exactly one message has read them before, with all earlier writes in it: what arrives last holds the rank's
own contribution (the schedule is proved), which can have left by that one message alone, so that message was
received before this one was sent.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from weft.dependencies import Entries, entries
from weft.errors import InputError
from weft.proof import verify
from weft.runtime.halves import Half
from weft.schedule import COPY, OPS, Longs, Op, Schedule

Ids = tuple[int, ...]


class Incoming(NamedTuple):
    """A message to this rank: ``after`` are incoming and ``guards`` outgoing messages that come before its application."""

    peer: int
    transfer: int
    start: int
    stop: int
    copies: bool
    direct: bool
    after: Ids
    guards: Ids
    releases: Ids
    """the outgoing messages that carry it"""


class Outgoing(NamedTuple):
    """A message from this rank, which carries the incoming messages ``after`` (the last into each of its cells)."""

    peer: int
    transfer: int
    start: int
    stop: int
    after: Ids


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One rank's part of a schedule for tensors of so many elements; messages in the order of the list."""

    schedule: Schedule
    rank: int
    elements: int
    incoming: tuple[Incoming, ...]
    outgoing: tuple[Outgoing, ...]
    sources: dict[int, Ids]
    """from every peer, the incoming messages in the order of the channel"""
    destinations: dict[int, Ids]

    @property
    def participates(self) -> bool:
        return self.rank in self.schedule.participants

    def chunks(self, transfer: int) -> str:
        """Which chunks a transfer carries, and how, for messages to people."""
        first, span = int(self.schedule.chunk[transfer]), int(self.schedule.span[transfer])
        op: Op = OPS[self.schedule.op[transfer]]
        return f"chunk {first} ({op})" if span == 1 else f"chunks {first}-{first + span - 1} ({op})"


@lru_cache(maxsize=32)
def _proved_entries(what: Schedule | Half) -> Entries:
    """What waits for what, of a schedule that has been proved: nothing else is executed."""
    if isinstance(what, Half):
        return entries(what.schedule)
    verify(what)
    return entries(what)


@lru_cache(maxsize=4096)
def program_of(what: Schedule | Half, rank: int, elements: int) -> Program:
    """The program of one rank for tensors of so many elements. Proves the schedule when it first sees it."""
    schedule = what.schedule if isinstance(what, Half) else what
    if not 0 <= rank < schedule.workers:
        raise InputError(
            f"rank {rank} is not in a schedule of {schedule.workers} workers: plan for as many as there are"
        )
    return _Compilation(schedule, rank, schedule.boundaries(elements), _proved_entries(what)).program()


class _Compilation:
    """The messages of one rank, and who reads and writes each of its cells."""

    def __init__(self, schedule: Schedule, rank: int, cuts: Longs, proved: Entries) -> None:
        self.schedule, self.rank, self.cuts, self.entries = schedule, rank, cuts, proved
        self.full = np.diff(cuts) > 0
        sizes = cuts[schedule.chunk + schedule.span] - cuts[schedule.chunk]
        self.received = np.flatnonzero((schedule.destination == rank) & (sizes > 0)).tolist()
        self.sent = np.flatnonzero((schedule.source == rank) & (sizes > 0)).tolist()
        self.writers: dict[int, list[int]] = defaultdict(list)
        """incoming messages into every chunk, in order"""
        self.readers: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """outgoing messages of every chunk, each with the number of writes before it"""
        for i, t in enumerate(self.received):
            for chunk, _ in self.cells(t):
                self.writers[chunk].append(i)
        for o, t in enumerate(self.sent):
            for chunk, e in self.cells(t):
                self.readers[chunk].append((o, int(self.entries.needs[e])))

    def cells(self, transfer: int) -> list[tuple[int, int]]:
        """The chunks of a transfer that have elements, each with its entry."""
        first, span = int(self.schedule.chunk[transfer]), int(self.schedule.span[transfer])
        begin = int(self.entries.start[transfer])
        return [(first + k, begin + k) for k in range(span) if self.full[first + k]]

    def program(self) -> Program:
        outgoing = tuple(self.outgoing(t) for t in self.sent)
        releases: dict[int, list[int]] = defaultdict(list)
        for o, message in enumerate(outgoing):
            for i in message.after:
                releases[i].append(o)
        incoming = tuple(self.incoming(t, tuple(releases[i])) for i, t in enumerate(self.received))
        sources: dict[int, list[int]] = defaultdict(list)
        destinations: dict[int, list[int]] = defaultdict(list)
        for i, arriving in enumerate(incoming):
            sources[arriving.peer].append(i)
        for o, leaving in enumerate(outgoing):
            destinations[leaving.peer].append(o)
        return Program(
            self.schedule, self.rank, int(self.cuts[-1]), incoming, outgoing,
            {peer: tuple(ids) for peer, ids in sources.items()},
            {peer: tuple(ids) for peer, ids in destinations.items()},
        )  # fmt: skip

    def outgoing(self, t: int) -> Outgoing:
        after = set()
        for chunk, e in self.cells(t):
            needs = int(self.entries.needs[e])
            if needs:
                after.add(self.writers[chunk][needs - 1])
        return Outgoing(int(self.schedule.destination[t]), t, *self.range(t), tuple(sorted(after)))

    def incoming(self, t: int, releases: Ids) -> Incoming:
        after, guards, direct = set(), set(), self.schedule.op[t] == COPY
        for chunk, e in self.cells(t):
            turn = int(self.entries.turn[e])
            if turn:
                after.add(self.writers[chunk][turn - 1])
            guards |= {o for o, needs in self.readers[chunk] if needs == turn}
            direct = direct and self.arrives_when_quiet(chunk, turn)
        if direct:
            after, guards = set(), set()
        return Incoming(
            int(self.schedule.source[t]), t, *self.range(t), bool(self.schedule.op[t] == COPY), bool(direct),
            tuple(sorted(after)), tuple(sorted(guards)), releases,
        )  # fmt: skip

    def range(self, t: int) -> tuple[int, int]:
        first = int(self.schedule.chunk[t])
        return int(self.cuts[first]), int(self.cuts[first + int(self.schedule.span[t])])

    def arrives_when_quiet(self, chunk: int, turn: int) -> bool:
        """Whether a copy that is write number ``turn`` into a chunk can find nobody at work there; see above."""
        before = [needs for _, needs in self.readers[chunk] if needs <= turn]
        if turn == 0 and not before:
            return True
        last = turn == len(self.writers[chunk]) - 1
        return self.rank in self.schedule.participants and last and before == [turn]
