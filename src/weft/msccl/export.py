"""From a schedule to an MSCCL document."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.errors import InputError
from weft.msccl.document import (
    MOST_BLOCKS,
    MOST_CHANNELS,
    MOST_CHUNKS,
    MOST_COUNT,
    MOST_ELEMENTS,
    MOST_PEERS,
    SLOTS,
    After,
    Block,
    Gpu,
    Program,
    Range,
    Step,
    text_of,
)
from weft.proof import verify
from weft.schedule import Schedule, Transfer

_NAME = re.compile(r"[A-Za-z0-9_.:+-]{1,200}")


def to_msccl(
    schedule: Schedule,
    *,
    name: str | None = None,
    proto: str = "Simple",
    min_bytes: int = 0,
    max_bytes: int = 0,
    in_place: bool = True,
    out_of_place: bool = True,
    most_units: int = 1024,
    most_steps: int = 64,
) -> str:
    """The MSCCL document of an all-reduce in which every worker participates; it is proved first.

    MSCCL uses it for tensors of ``min_bytes`` to ``max_bytes`` bytes (0: no limit). RCCL reads at most 64 steps of a block,
    MSCCL 256: ``most_steps``. Weights that need more than ``most_units`` equal units are rounded.
    """
    if name is None:
        name = re.sub(r"[^A-Za-z0-9_.:+-]", "_", schedule.name)[:200] or "schedule"
    _check_options(name, proto, min_bytes, max_bytes, in_place or out_of_place, most_units, most_steps)
    if len(schedule.participants) < schedule.workers:
        raise InputError(
            f"{schedule.name}: {len(schedule.participants)} of {schedule.workers} workers participate; in an MSCCL document "
            "all of them do: make the schedule for a network without inactive workers"
        )
    if schedule.workers == 1:
        raise InputError(f"{schedule.name}: one worker has nothing to send, so there is no MSCCL document for it")
    verify(schedule)
    program = _Program(schedule.workers, units_of(schedule.chunk_weights.tolist(), most_units), most_steps)
    for group in _groups(schedule):
        program.add(group)
    gpus = tuple(gpu.finished() for gpu in program.gpus)
    _check_size(schedule.name, gpus)
    chunks = sum(program.units)
    return text_of(Program(name, proto, chunks, in_place, out_of_place, min_bytes, max_bytes, gpus))


def units_of(weights: Sequence[int], most: int) -> list[int]:
    """How many equal units stand for every chunk: exactly, or rounded to ``most`` units where that would be more."""
    divisor = math.gcd(*weights)
    units = [weight // divisor for weight in weights]
    if sum(units) <= most:
        return units
    used = [i for i, weight in enumerate(weights) if weight]
    if len(used) > most:
        raise InputError(f"{len(used)} chunks do not fit into {most} MSCCL chunks: use fewer segments or more units")
    whole, spare = sum(weights), most - len(used)
    shares = [divmod(weight * spare, whole) for weight in weights]
    # Everyone has one, the rest goes by weight, and what is left then to the largest remainders.
    units = [share + (weight > 0) for (share, _), weight in zip(shares, weights, strict=True)]
    for i in sorted(used, key=lambda i: (-shares[i][1], i))[: most - sum(units)]:
        units[i] += 1
    return units


def _check_options(
    name: str, proto: str, min_bytes: int, max_bytes: int, placed: bool, most_units: int, most_steps: int
) -> None:
    if not _NAME.fullmatch(name):
        raise InputError(f"name {name!r}: up to 200 letters, digits and _ . : + - are possible in an MSCCL document")
    if proto not in SLOTS:
        raise InputError(f"proto {proto!r}: it is one of {', '.join(SLOTS)}")
    if min_bytes < 0 or max_bytes < 0 or 0 < max_bytes < min_bytes:
        raise InputError(
            f"min_bytes {min_bytes} and max_bytes {max_bytes}: 0 <= min_bytes <= max_bytes, or max_bytes 0"
        )
    if not placed:
        raise InputError("in_place and out_of_place are both False: the document would never be used")
    if not 1 <= most_units <= MOST_CHUNKS:
        raise InputError(f"most_units {most_units}: it is from 1 to {MOST_CHUNKS}")
    if not 2 <= most_steps <= 256:
        raise InputError(f"most_steps {most_steps}: it is from 2 to 256")


def _check_size(name: str, gpus: Sequence[Gpu]) -> None:
    for rank, gpu in enumerate(gpus):
        elements = 1 + len(gpus) + len(gpu.blocks) + sum(len(block.steps) for block in gpu.blocks)
        if elements > MOST_ELEMENTS:
            raise InputError(
                f"{name}: worker {rank} has {elements} XML elements, MSCCL reads at most {MOST_ELEMENTS}: use fewer segments"
            )


def _groups(schedule: Schedule) -> Iterator[list[Transfer]]:
    """Transfers one by one, and the two sides of an exchange together."""
    group: list[Transfer] = []
    for transfer, second in zip(schedule, schedule.exchanges.tolist(), strict=True):
        if group and not second:
            yield group
            group = []
        group.append(transfer)
    if group:
        yield group


@dataclass(slots=True)
class _Gpu:
    """One GPU's blocks as they grow, and who touched its units last."""

    units: int
    blocks: list[Block] = field(default_factory=list)
    written: dict[int, After] = field(default_factory=dict)
    """the step that wrote a unit last"""
    read: dict[int, dict[int, int]] = field(default_factory=dict)
    """the steps that read a unit since: the last of every block"""
    done: list[dict[int, int]] = field(default_factory=list)
    """what a block knows to be done: the last step of every other block"""
    done_at: dict[After, dict[int, int]] = field(default_factory=dict)
    """the same when a step had run"""

    def buffer(self, unit: int) -> str:
        """Where the unit's value is."""
        return "o" if unit in self.written else "i"

    def needs(self, units: range, writes: bool) -> set[After]:
        """The steps that must be done before these units are read or written."""
        steps = {self.written[unit] for unit in units if unit in self.written}
        if writes:
            steps.update(After(*item) for unit in units for item in self.read.get(unit, {}).items())
        return steps

    def add(self, number: int, step: Step, units: range, writes: bool) -> None:
        """Put a step at the end of a block, with nops before it where it waits for several others."""
        block = self.blocks[number]
        after = self._awaited(number, self.needs(units, writes))
        for one in after[:-1]:
            block.steps.append(Step("nop", Range("i", -1), Range("o", -1), 0, one))
        step.after = after[-1] if after else None
        here = After(number, len(block.steps))
        block.steps.append(step)
        self.done_at[here] = {**self.done[number], number: here.step}
        for unit in units:
            if writes:
                self.written[unit] = here
                self.read.pop(unit, None)
            else:
                self.read.setdefault(unit, {})[number] = here.step

    def _awaited(self, number: int, needs: set[After]) -> list[After]:
        """The steps to wait for by name: not those that the block, or another one that it waits for, has waited for."""
        done = self.done[number]
        awaited = []
        # Those that know most come first: they make the others unnecessary.
        for one in sorted(needs, key=lambda one: (-sum(self.done_at[one].values()), one)):
            if one.block != number and done.get(one.block, -1) < one.step:
                awaited.append(one)
                self.blocks[one.block].steps[one.step].signals = True
                for block, step in self.done_at[one].items():
                    done[block] = max(step, done.get(block, -1))
        return awaited

    def finished(self) -> Gpu:
        """The GPU as the document has it."""
        return Gpu({"i": self.units, "o": self.units, "s": 0}, self.blocks)


class _Program:
    """The GPUs' blocks while transfers are added in the order of the list."""

    def __init__(self, workers: int, units: list[int], most_steps: int) -> None:
        self.units = units
        self.most_steps = most_steps
        self.first = np.concatenate([[0], np.cumsum(units)]).tolist()
        self.gpus = [_Gpu(sum(units)) for _ in range(workers)]
        self.lines: dict[tuple[int, int], tuple[int, int]] = {}
        """the block that sends and the block that receives, for every pair of GPUs"""

    def add(self, group: list[Transfer]) -> None:
        """Add a transfer, or both sides of an exchange: all is sent before anything is added."""
        units = range(self.first[group[0].chunk], self.first[group[0].chunk + group[0].span])
        for piece in self._pieces(group, units):
            lines = [self._line(transfer, piece) for transfer in group]
            for transfer, (sender, _) in zip(group, lines, strict=True):
                gpu = self.gpus[transfer.source]
                source = Range(gpu.buffer(piece.start), piece.start)
                gpu.add(sender, Step("s", source, Range("o", piece.start), len(piece)), piece, False)
            for transfer, (_, receiver) in zip(group, lines, strict=True):
                gpu = self.gpus[transfer.destination]
                kind = "rrc" if transfer.op == "reduce" else "r"
                source = Range(gpu.buffer(piece.start), piece.start)
                gpu.add(receiver, Step(kind, source, Range("o", piece.start), len(piece)), piece, True)

    def _pieces(self, group: list[Transfer], units: range) -> Iterator[range]:
        """Parts of a transfer that are one step: in one buffer at either end, and not too many units."""
        most = 1 if len(group) == 2 else MOST_COUNT
        one, other = self.gpus[group[0].source], self.gpus[group[0].destination]
        start = units.start
        for unit in units:
            alike = one.buffer(unit) == one.buffer(start) and other.buffer(unit) == other.buffer(start)
            if unit - start == most or not alike:
                yield range(start, unit)
                start = unit
        if start < units.stop:
            yield range(start, units.stop)

    def _line(self, transfer: Transfer, units: range) -> tuple[int, int]:
        """The blocks for a transfer at both ends, on a further channel if one of those in use is full."""
        source, destination = self.gpus[transfer.source], self.gpus[transfer.destination]
        # One more than is known: in an exchange the receiver also waits for what is about to be sent.
        steps = (
            max(1, len({one.block for one in source.needs(units, False)})),
            1 + len({one.block for one in destination.needs(units, True)}),
        )
        if max(steps) > self.most_steps:
            raise InputError(
                f"{transfer} waits for {max(steps)} thread blocks, and a block has {self.most_steps} steps: "
                "use a collective with fewer peers, or most_steps=256 for MSCCL"
            )
        pair = transfer.source, transfer.destination
        line = self.lines.get(pair)
        if line is None or any(
            len(gpu.blocks[block].steps) + more > self.most_steps
            for gpu, block, more in zip((source, destination), line, steps, strict=True)
        ):
            line = self.lines[pair] = self._opened(*pair, -1 if line is None else source.blocks[line[0]].channel)
        return line

    def _opened(self, source: int, destination: int, channel: int) -> tuple[int, int]:
        """A new pair of blocks on the next channel that has room at both ends."""
        for further in range(channel + 1, MOST_CHANNELS):
            senders = sum(b.send >= 0 and b.channel == further for b in self.gpus[source].blocks)
            receivers = sum(b.receive >= 0 and b.channel == further for b in self.gpus[destination].blocks)
            if senders < MOST_PEERS and receivers < MOST_PEERS:
                return (
                    self._block(source, Block(destination, -1, further, [])),
                    self._block(destination, Block(-1, source, further, [])),
                )
        raise InputError(
            f"workers {source} and {destination} would need more than {MOST_CHANNELS} channels of {self.most_steps} steps: "
            "use fewer segments, or most_steps=256 for MSCCL"
        )

    def _block(self, rank: int, block: Block) -> int:
        gpu = self.gpus[rank]
        if len(gpu.blocks) == MOST_BLOCKS:
            raise InputError(
                f"worker {rank} would need more than {MOST_BLOCKS} thread blocks, one for each direction, peer and channel: "
                "use a collective with fewer peers, or fewer segments"
            )
        gpu.blocks.append(block)
        gpu.done.append({})
        return len(gpu.blocks) - 1
