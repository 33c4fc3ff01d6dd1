"""From an MSCCL document to a schedule: what the steps do to values, and a list of transfers that does the same."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.msccl.document import KINDS, SLOTS, Program, Range
from weft.msccl.execution import Event, check_races, executed
from weft.msccl.parsing import program_of
from weft.schedule import OPS, Op, Schedule, Transfer


def from_msccl(text: str) -> Schedule:
    """The schedule that does what an MSCCL all-reduce document does.

    A document that deadlocks, races or cannot be said as a schedule raises ``InputError`` with the step. Whether it is an
    all-reduce is for ``verify`` to say. A step counts as one message, so sizes are assumed at which it is one.
    """
    program = program_of(text)
    events = executed(program, SLOTS[program.proto])
    found = []
    # In place, input and output are the same memory.
    for possible, memory in ((program.in_place, "iis"), (program.out_of_place, "ios")):
        if possible:
            same = dict(zip("ios", memory, strict=True))
            check_races(program, events, same)
            found.append(_Values(program, same).schedule(events))
    if found[0] != found[-1]:
        raise InputError(
            "the document does one thing in place and another out of place: set inplace or outofplace to 0"
        )
    return found[0]


class Value(NamedTuple):
    """What a worker has of a chunk after so many transfers into it."""

    worker: int
    chunk: int
    version: int


class Move(NamedTuple):
    """A transfer of one chunk: the value that it carries and the one that it makes, and the step that applies it."""

    carried: Value
    made: Value
    op: Op
    event: int


class _Values:
    """The memory of all GPUs on symbols, and the transfers that lead to it."""

    def __init__(self, program: Program, memory: dict[str, str]) -> None:
        self.program = program
        self.memory = memory
        self.cuts = _cuts(program)
        self.chunk_at = {cut: i for i, cut in enumerate(self.cuts)}
        self.cells: dict[tuple[int, str, int], Value] = {}
        self.versions: dict[tuple[int, int], int] = defaultdict(int)
        self.messages: dict[int, list[Value]] = {}
        self.moves: list[Move] = []
        self.places: list[str] = []

    def schedule(self, events: list[Event]) -> Schedule:
        for rank in range(len(self.program.gpus)):
            for chunk in range(len(self.cuts) - 1):
                self.cells[rank, self.memory["i"], chunk] = Value(rank, chunk, 0)
        for event in events:
            self._apply(event)
        self._check_outputs()
        weights = np.diff(self.cuts)
        return _listed(len(self.program.gpus), weights.tolist(), self.moves, self.places, self.program.name)

    def _apply(self, event: Event) -> None:
        """Run one step."""
        step = self.program.gpus[event.gpu].blocks[event.block].steps[event.step]
        kind = KINDS[step.kind]
        self.places.append(self.program.place(event.gpu, event.block, event.step))
        values = self.messages.pop(event.received) if event.received >= 0 else []
        if kind.reads:
            own = [self._read(event.gpu, cell) for cell in self._range(step.source, step.count)]
            values = self._sums(event.gpu, own, values) if kind.receives else own
        if kind.adds:
            own = [self._read(event.gpu, cell) for cell in self._range(step.destination, step.count)]
            values = self._sums(event.gpu, own, values)
        if kind.writes:
            values = self._store(event.gpu, self._range(step.destination, step.count), values)
        if event.sent >= 0:
            foreign = next((value for value in values if value.worker != event.gpu), None)
            if foreign is not None:
                raise self._error(f"it passes on what gpu {foreign.worker} sent without adding or storing it")
            self.messages[event.sent] = values

    def _range(self, start: Range, count: int) -> list[Range]:
        """The chunks of so many units; in scratch memory every unit is one."""
        if start.buffer == "s":
            return [Range("s", start.offset + i) for i in range(count)]
        first, last = (self.chunk_at[unit] for unit in (start.offset, start.offset + count))
        return [Range(start.buffer, chunk) for chunk in range(first, last)]

    def _read(self, gpu: int, cell: Range) -> Value:
        value = self.cells.get((gpu, self.memory[cell.buffer], cell.offset))
        if value is None:
            raise self._error(f"it reads buffer {cell.buffer} where nothing was written")
        return value

    def _store(self, gpu: int, cells: list[Range], values: list[Value]) -> list[Value]:
        """Keep values; one that another GPU sent becomes a transfer when it reaches its place in the tensor."""
        if len(cells) != len(values):
            raise self._error("it stores chunks at another offset than the one they were sent from")
        stored = [
            self._moved(gpu, value, "copy")
            if value.worker != gpu and cell.buffer != "s" and cell.offset == value.chunk
            else value
            for cell, value in zip(cells, values, strict=True)
        ]
        for cell, value in zip(cells, stored, strict=True):
            self.cells[gpu, self.memory[cell.buffer], cell.offset] = value
        return stored

    def _sums(self, gpu: int, some: list[Value], others: list[Value]) -> list[Value]:
        if len(some) != len(others):
            raise self._error("it adds chunks to others at another offset")
        return [self._sum(gpu, one, other) for one, other in zip(some, others, strict=True)]

    def _sum(self, gpu: int, one: Value, other: Value) -> Value:
        """The sum of what this GPU has and what another sent, in either order."""
        own, sent = (one, other) if one.worker == gpu else (other, one)
        if own.worker != gpu or sent.worker == gpu:
            raise self._error(
                f"it adds what gpu {one.worker} has to what gpu {other.worker} has, not its own to another's"
            )
        if own.chunk != sent.chunk:
            raise self._error(f"it adds chunk {self.cuts[sent.chunk]} to chunk {self.cuts[own.chunk]}")
        if own.version != self.versions[gpu, own.chunk]:
            raise self._error(
                f"it adds to chunk {self.cuts[own.chunk]} as it was before a sum that was sent or stored elsewhere"
            )
        return self._moved(gpu, sent, "reduce")

    def _moved(self, gpu: int, sent: Value, op: Op) -> Value:
        self.versions[gpu, sent.chunk] += 1
        made = Value(gpu, sent.chunk, self.versions[gpu, sent.chunk])
        self.moves.append(Move(sent, made, op, len(self.places) - 1))
        return made

    def _check_outputs(self) -> None:
        for rank in range(len(self.program.gpus)):
            for chunk, unit in enumerate(self.cuts[:-1]):
                last = Value(rank, chunk, self.versions[rank, chunk])
                if self.cells.get((rank, self.memory["o"], chunk)) != last:
                    raise InputError(
                        f"gpu {rank}: chunk {unit} of its output is not the last that it computed of that chunk"
                    )

    def _error(self, problem: str) -> InputError:
        return InputError(f"{self.places[-1]}: {problem}; no schedule says this")


def _cuts(program: Program) -> list[int]:
    """Where chunks of the schedule begin and end: units that always travel together are one chunk."""
    cuts = {0, program.chunks}
    for step in (step for gpu in program.gpus for block in gpu.blocks for step in block.steps):
        kind = KINDS[step.kind]
        ends = [end for end, local in ((step.source, kind.reads), (step.destination, kind.writes)) if local]
        if any(end.buffer == "s" for end in ends):
            return list(range(program.chunks + 1))
        cuts.update(end.offset + more for end in ends for more in (0, step.count))
    return sorted(cuts)


def _listed(workers: int, weights: list[int], moves: list[Move], places: list[str], name: str) -> Schedule:
    """The moves as a list in which every transfer stands where its source has what it carries."""
    transfers: list[Transfer] = []
    seconds: list[bool] = []
    last: Move | None = None
    for group in _ordered(moves, places):
        for i, (carried, made, op, event) in enumerate(moves[m] for m in group):
            before = transfers[-1] if transfers else None
            if (
                len(group) == 1
                and last is not None
                and before is not None
                and (last.event, last.carried.worker, last.op) == (event, carried.worker, op)
                and before.chunk + before.span == made.chunk
            ):
                transfers[-1] = Transfer(before.source, before.destination, before.chunk, op, before.span + 1)
            else:
                transfers.append(Transfer(carried.worker, made.worker, made.chunk, op))
                seconds.append(i == 1)
        last = moves[group[0]] if len(group) == 1 else None
    schedule = Schedule.of_transfers(workers, weights, transfers, None, name)
    wrong = np.flatnonzero(schedule.exchanges != np.array(seconds, dtype=np.bool_))
    if len(wrong):
        # Neighbours that look like an exchange and are none: the second sends back what it just got.
        one = schedule[int(wrong[0])]
        raise InputError(
            f"chunk {one.chunk}: gpu {one.destination} gets back from gpu {one.source} what it sent, and adds it"
        )
    return schedule


def _ordered(moves: list[Move], places: list[str]) -> list[list[int]]:
    """Moves in order, the two sides of an exchange together."""
    makers = {move.made: m for m, move in enumerate(moves)}
    readers: dict[Value, list[int]] = defaultdict(list)
    for m, move in enumerate(moves):
        readers[move.carried].append(m)
    group = list(range(len(moves)))
    for m, move in enumerate(moves):
        other = makers.get(move.carried._replace(version=move.carried.version + 1))
        if other is not None and other < m and _exchange(moves[other], move):
            group[m] = other
    followers: dict[int, set[int]] = defaultdict(set)
    for m, move in enumerate(moves):
        overwritten = move.made._replace(version=move.made.version - 1)
        before = [makers.get(move.carried), makers.get(overwritten), *readers[overwritten]]
        for b in before:
            if b is not None and group[b] != group[m]:
                followers[group[b]].add(group[m])
    return _sorted_groups(moves, places, group, followers)


def _exchange(one: Move, other: Move) -> bool:
    """Each carries what its source had before the other arrived, and both are added."""
    return (
        one.op == other.op == OPS[0]
        and one.carried == other.made._replace(version=other.made.version - 1)
        and other.carried == one.made._replace(version=one.made.version - 1)
    )


def _sorted_groups(
    moves: list[Move], places: list[str], group: list[int], followers: dict[int, set[int]]
) -> list[list[int]]:
    """The groups so that followers come later, otherwise as they ran."""
    members: dict[int, list[int]] = defaultdict(list)
    for m in range(len(moves)):
        members[group[m]].append(m)
    waiting: dict[int, int] = dict.fromkeys(members, 0)
    for later in followers.values():
        for g in later:
            waiting[g] += 1
    ready = [g for g, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        g = heapq.heappop(ready)
        order.append(members.pop(g))
        for later_one in followers[g]:
            waiting[later_one] -= 1
            if waiting[later_one] == 0:
                heapq.heappush(ready, later_one)
    if members:
        place = places[moves[next(iter(members))].event]
        raise InputError(
            f"{place}: several GPUs exchange what they had before at once; a schedule has only two do that"
        )
    return order
