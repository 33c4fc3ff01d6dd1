"""Running the blocks of a program: an order in which the steps can happen, or the reason why they cannot.

Every block goes on as soon as it can and nothing that it does takes the chance from another, so if one order ends, all
do: a single run shows that there is no deadlock. It does not show that the order does not matter; ``check_races`` does.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError
from weft.msccl.document import KINDS, Program, Range, Step

Clock = NDArray[np.int32]
Line = tuple[int, int, int]
"""source, destination and channel"""


class Event(NamedTuple):
    """A step that ran, and the messages that it received and sent; -1 is none."""

    gpu: int
    block: int
    step: int
    received: int
    sent: int


@dataclass(slots=True)
class _Running:
    """A block, the step that comes next, and the last one that told the others."""

    gpu: int
    number: int
    next: int = 0
    told: int = -1


class _Run:
    """The state of all blocks and connections."""

    def __init__(self, program: Program, slots: int) -> None:
        self.program = program
        self.slots = slots
        self.blocks = [[_Running(g, b) for b in range(len(gpu.blocks))] for g, gpu in enumerate(program.gpus)]
        self.queues: dict[Line, deque[tuple[int, int]]] = defaultdict(deque)
        self.ends: dict[tuple[Line, str], _Running] = {}
        self.messages = 0
        for running in self.all():
            block = program.gpus[running.gpu].blocks[running.number]
            self.ends[(running.gpu, block.send, block.channel), "send"] = running
            self.ends[(block.receive, running.gpu, block.channel), "receive"] = running

    def all(self) -> Iterator[_Running]:
        return (running for blocks in self.blocks for running in blocks)

    def step(self, running: _Running) -> Step | None:
        steps = self.program.gpus[running.gpu].blocks[running.number].steps
        return steps[running.next] if running.next < len(steps) else None

    def lines(self, running: _Running) -> tuple[Line, Line]:
        """The connection that a block receives from, and the one that it sends to."""
        block = self.program.gpus[running.gpu].blocks[running.number]
        return (block.receive, running.gpu, block.channel), (running.gpu, block.send, block.channel)

    def obstacle(self, running: _Running) -> str:
        """What the block's next step waits for; nothing if it can run."""
        step = self.step(running)
        assert step is not None
        kind, (incoming, outgoing) = KINDS[step.kind], self.lines(running)
        if step.after is not None and self.blocks[running.gpu][step.after.block].told < step.after.step:
            return f"waits for step {step.after.step} of tb {step.after.block}, or a later one there with hasdep=1"
        if kind.receives and not self.queues[incoming]:
            return f"waits for a message from gpu {incoming[0]} on channel {incoming[2]}"
        if kind.sends and len(self.queues[outgoing]) >= self.slots:
            return f"waits for gpu {outgoing[1]} to receive on channel {outgoing[2]}"
        return ""

    def execute(self, running: _Running) -> tuple[Event, list[_Running]]:
        """Run the block's next step; also the blocks that may go on because of it."""
        step = self.step(running)
        assert step is not None
        kind, (incoming, outgoing) = KINDS[step.kind], self.lines(running)
        received, sent, woken = -1, -1, []
        if kind.receives:
            received, count = self.queues[incoming].popleft()
            if count != step.count:
                place = self.program.place(running.gpu, running.number, running.next)
                raise InputError(f"{place}: it receives {step.count} chunks, but gpu {incoming[0]} sends {count} there")
            woken.append(self.ends[incoming, "send"])
        if kind.sends:
            sent = self.messages
            self.messages += 1
            self.queues[outgoing].append((sent, step.count))
            if (outgoing, "receive") in self.ends:
                woken.append(self.ends[outgoing, "receive"])
        if step.signals and step.kind != "nop":
            running.told = running.next
            woken += self.blocks[running.gpu]
        running.next += 1
        return Event(running.gpu, running.number, running.next - 1, received, sent), woken


def executed(program: Program, slots: int) -> list[Event]:
    """The steps in an order in which they can happen when a connection holds so many messages."""
    run = _Run(program, slots)
    events = []
    ready = deque(run.all())
    while ready:
        running = ready.popleft()
        while run.step(running) is not None and not run.obstacle(running):
            event, woken = run.execute(running)
            events.append(event)
            ready += woken
    stuck = [running for running in run.all() if run.step(running) is not None]
    if stuck:
        reasons = [f"{program.place(r.gpu, r.number, r.next)} {run.obstacle(r)}" for r in stuck]
        more = f"; and {len(stuck) - 4} more" if len(stuck) > 4 else ""
        raise InputError(f"the document cannot end: {'; '.join(reasons[:4])}{more}")
    for (source, destination, channel), queue in run.queues.items():
        if queue:
            raise InputError(
                f"gpu {destination} never receives what gpu {source} sends to it last on channel {channel}"
            )
    return events


def check_races(program: Program, events: list[Event], memory: dict[str, str]) -> None:
    """Steps that touch the same memory, one of them writing, must be ordered by the document.

    A clock has for every block the last step that is known to be done (a vector clock); messages and waiting hand it on.
    ``memory`` says which buffers are the same.
    """
    first = np.cumsum([0, *(len(gpu.blocks) for gpu in program.gpus)]).tolist()
    clocks = [np.full(first[-1], -1, dtype=np.int32) for _ in range(first[-1])]
    told: list[list[tuple[int, Clock]]] = [[] for _ in clocks]
    sent: dict[int, Clock] = {}
    cells: dict[tuple[int, str, int], _Cell] = defaultdict(_Cell)
    for event in events:
        me = first[event.gpu] + event.block
        step, clock = program.gpus[event.gpu].blocks[event.block].steps[event.step], clocks[me]
        if step.after is not None:
            others = told[first[event.gpu] + step.after.block]
            np.maximum(clock, next(at for s, at in others if s >= step.after.step), out=clock)
        if event.received >= 0:
            np.maximum(clock, sent.pop(event.received), out=clock)
        for (buffer, unit), writes in touched(step):
            fault = cells[event.gpu, memory[buffer], unit].fault(me, event.step, clock, writes)
            if fault is not None:
                here = program.place(event.gpu, event.block, event.step)
                there = program.place(event.gpu, fault[0] - first[event.gpu], fault[1])
                raise InputError(
                    f"{here} and {there} use chunk {unit} of buffer {buffer}, and neither waits for the other: add a depid"
                )
        clock[me] = event.step
        if step.signals and step.kind != "nop":
            told[me].append((event.step, clock.copy()))
        if event.sent >= 0:
            sent[event.sent] = clock.copy()


class _Cell:
    """The steps that touched one chunk of memory last, by block."""

    __slots__ = ("reads", "written")

    def __init__(self) -> None:
        self.written: tuple[int, int] | None = None
        self.reads: dict[int, int] = {}

    def fault(self, block: int, step: int, clock: Clock, writes: bool) -> tuple[int, int] | None:
        """A step that this one is not known to come after; none if all is well."""
        before = [self.written] if self.written is not None else []
        before += self.reads.items() if writes else ()
        if writes:
            self.written, self.reads = (block, step), {}
        else:
            self.reads[block] = step
        return next(((b, s) for b, s in before if b != block and clock[b] < s), None)


def touched(step: Step) -> Iterator[tuple[Range, bool]]:
    """The chunks of memory that a step reads or writes, one by one, and whether it writes."""
    kind = KINDS[step.kind]
    for i in range(step.count):
        if kind.reads:
            yield Range(step.source.buffer, step.source.offset + i), False
        if kind.writes:
            yield Range(step.destination.buffer, step.destination.offset + i), True
