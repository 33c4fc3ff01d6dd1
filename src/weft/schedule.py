"""Schedule: who sends which piece to whom, in one list.

The three rules, which the prover, the simulator and the runtime all implement:

1. Data: a transfer may start as soon as every earlier transfer into its source for its chunk has been applied.
2. Channel: transfers from one worker to another travel in the order of the list, one after the other.
3. Order: reductions into a chunk are applied in the order of the list. A result is the same, to the bit, on every rank
   and in every run.

A transfer carries what its source holds at its place in the list: what arrives there later is not in it. Two
neighbouring lines ``a>b`` and ``b>a`` that reduce the same chunks are an exchange: each carries what its source held
before the other. (Read one after the other they would count a's contribution twice, so no valid schedule means that.)

A transfer may span several chunks that lie side by side; it travels as one message. Workers that do not participate
start with nothing (zeros) and may relay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import InputError, ScheduleError

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Op = Literal["reduce", "copy"]

REDUCE, COPY = 0, 1
OPS: tuple[Op, Op] = ("reduce", "copy")
MOST_WEIGHT = 1 << 53
"""The weights of all chunks together stay below this, so that boundaries are exact."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A contiguous part of the tensor: from ``start`` to ``stop`` of ``whole``."""

    index: int
    start: int
    stop: int
    whole: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """One message: ``span`` chunks from ``chunk`` on, added (``reduce``) or written over (``copy``) at the destination."""

    source: int
    destination: int
    chunk: int
    op: Op
    span: int = 1

    def __str__(self) -> str:
        chunks = str(self.chunk) if self.span == 1 else f"{self.chunk}-{self.chunk + self.span - 1}"
        return f"{self.source}>{self.destination} {self.op} {chunks}"


@dataclass(frozen=True, eq=False)
class Schedule:
    """Chunks and transfers in order: arrays inside, objects and text outside."""

    workers: int
    """how many ranks there are, participating or not"""
    chunk_weights: Longs
    """chunk i is ``chunk_weights[i] / sum`` of the tensor"""
    source: Ints
    destination: Ints
    chunk: Ints
    op: NDArray[np.uint8]
    span: Ints
    participants: tuple[int, ...]
    """the ranks that contribute and must end with the result"""
    name: str = field(default="schedule", compare=False)

    @staticmethod
    def of(
        workers: int,
        chunks: int | ArrayLike,
        source: ArrayLike,
        destination: ArrayLike,
        chunk: ArrayLike,
        op: ArrayLike,
        span: ArrayLike | None = None,
        participants: Sequence[int] | None = None,
        name: str = "schedule",
    ) -> Schedule:
        """A schedule of arrays. ``chunks`` is a number of equal chunks or their weights."""
        weights = np.ones(chunks, dtype=np.int64) if isinstance(chunks, int) else np.asarray(chunks, dtype=np.int64)
        starts = np.ascontiguousarray(source, dtype=np.int32)
        return Schedule(
            workers,
            weights,
            starts,
            np.ascontiguousarray(destination, dtype=np.int32),
            np.ascontiguousarray(chunk, dtype=np.int32),
            np.ascontiguousarray(op, dtype=np.uint8),
            np.ones(len(starts), dtype=np.int32) if span is None else np.ascontiguousarray(span, dtype=np.int32),
            tuple(range(workers)) if participants is None else tuple(participants),
            name,
        )

    @staticmethod
    def of_transfers(
        workers: int,
        chunks: int | ArrayLike,
        transfers: Sequence[Transfer],
        participants: Sequence[int] | None = None,
        name: str = "schedule",
    ) -> Schedule:
        """A schedule of transfer objects."""
        return Schedule.of(
            workers,
            chunks,
            [t.source for t in transfers],
            [t.destination for t in transfers],
            [t.chunk for t in transfers],
            [OPS.index(t.op) for t in transfers],
            [t.span for t in transfers],
            participants,
            name,
        )

    @staticmethod
    def parse(text: str) -> Schedule:
        """The schedule that a text describes: the inverse of ``to_text``."""
        from weft.schedule_text import schedule_of

        return schedule_of(text)

    def to_text(self) -> str:
        """A few header lines and one line per transfer."""
        from weft.schedule_text import text_of

        return text_of(self)

    def __post_init__(self) -> None:
        _check(self)
        for array in (self.chunk_weights, self.source, self.destination, self.chunk, self.op, self.span):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, i: int) -> Transfer:
        return Transfer(
            int(self.source[i]), int(self.destination[i]), int(self.chunk[i]), OPS[self.op[i]], int(self.span[i])
        )

    def __iter__(self) -> Iterator[Transfer]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def whole(self) -> int:
        """The weight of the whole tensor."""
        return int(self.chunk_weights.sum())

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        ends = np.concatenate([[0], np.cumsum(self.chunk_weights)])
        return tuple(Chunk(i, int(ends[i]), int(ends[i + 1]), self.whole) for i in range(len(self.chunk_weights)))

    def boundaries(self, elements: int) -> Longs:
        """Where the chunks of a tensor of so many elements begin and end; every rank computes the same integers."""
        if elements < 0:
            raise InputError(f"a tensor of {elements} elements is not possible")
        ends = [0]
        for weight in self.chunk_weights.tolist():
            ends.append(ends[-1] + weight)
        return np.array([end * elements // self.whole for end in ends], dtype=np.int64)

    def transfer_bytes(self, nbytes: float) -> NDArray[np.float64]:
        """The size of every transfer when the tensor has so many bytes, as a real number: no rounding to elements."""
        ends = np.concatenate([[0], np.cumsum(self.chunk_weights)])
        sizes: NDArray[np.float64] = (ends[self.chunk + self.span] - ends[self.chunk]) * (nbytes / self.whole)
        return sizes

    @cached_property
    def exchanges(self) -> NDArray[np.bool_]:
        """Which transfers are the second of an exchange: they carry what was there before the one above arrived."""
        second = np.zeros(len(self), dtype=np.bool_)
        if len(self) > 1:
            second[1:] = (
                (self.source[1:] == self.destination[:-1])
                & (self.destination[1:] == self.source[:-1])
                & (self.chunk[1:] == self.chunk[:-1])
                & (self.span[1:] == self.span[:-1])
                & (self.op[1:] == REDUCE)
                & (self.op[:-1] == REDUCE)
            )
            _unpaired(second)
        return second

    @cached_property
    def depth(self) -> int:
        """How many transfers at most have to happen one after the other because of their data."""
        from weft.dependencies import depths

        return int(depths(self).max(initial=0))

    @cached_property
    def digest(self) -> str:
        """A fingerprint of all that matters: workers, participants, chunks and transfers, not the name."""
        content = hashlib.sha256(f"weft schedule 1 {self.workers} {self.participants}".encode())
        for array in (self.chunk_weights, self.source, self.destination, self.chunk, self.span, self.op):
            content.update(np.int64(len(array)).tobytes())
            content.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
        return content.hexdigest()

    def expanded(self) -> Schedule:
        """The same with every transfer of several chunks as one transfer per chunk."""
        if len(self) == 0 or int(self.span.max()) == 1:
            return self
        # The two sides of an exchange stay neighbours, chunk by chunk.
        pair = np.arange(len(self)) - self.exchanges
        which = np.repeat(np.arange(len(self)), self.span)
        first = np.concatenate([[0], np.cumsum(self.span)[:-1]])
        offset = np.arange(len(which)) - np.repeat(first, self.span)
        order = np.lexsort((which, offset, pair[which]))
        which, offset = which[order], offset[order]
        return Schedule.of(
            self.workers, self.chunk_weights, self.source[which], self.destination[which], self.chunk[which] + offset,
            self.op[which], None, self.participants, self.name,
        )  # fmt: skip

    def segmented(self, n: int) -> Schedule:
        """Every chunk cut into n, its transfers repeated for each, in the order in which a pipeline needs them."""
        from weft.dependencies import waves

        if n < 1:
            raise InputError(f"{n} segments are not possible: it must be at least 1")
        if n == 1:
            return self
        single = self.expanded()
        segment = np.tile(np.arange(n, dtype=np.int32), len(single))
        which = np.repeat(np.arange(len(single)), n)
        order = np.lexsort((which, segment, waves(single)[which] + segment))
        which, segment = which[order], segment[order]
        return Schedule.of(
            self.workers, np.repeat(self.chunk_weights, n), single.source[which], single.destination[which],
            single.chunk[which] * n + segment, single.op[which], None, self.participants, self.name,
        )  # fmt: skip

    def sliced(self, n: int) -> Schedule:
        """The tensor cut into n slices, each with the whole schedule for itself, in the order of a pipeline.

        What ``segmented`` does chunk by chunk, this does for the tensor, so that transfers of several chunks stay whole.
        """
        from weft.dependencies import waves

        if n < 1:
            raise InputError(f"{n} segments are not possible: it must be at least 1")
        if n == 1:
            return self
        piece = np.tile(np.arange(n, dtype=np.int32), len(self))
        which = np.repeat(np.arange(len(self)), n)
        order = np.lexsort((which, piece, waves(self)[which] + piece))
        which, piece = which[order], piece[order]
        return Schedule.of(
            self.workers, np.tile(self.chunk_weights, n), self.source[which], self.destination[which],
            piece * len(self.chunk_weights) + self.chunk[which], self.op[which], self.span[which], self.participants, self.name,
        )  # fmt: skip


def _unpaired(second: NDArray[np.bool_]) -> None:
    """In a run of lines that all answer the one above, only every other one is the second of an exchange."""
    for i in np.flatnonzero(second[1:] & second[:-1]) + 1:
        if second[i - 1]:
            second[i] = False


def _check(schedule: Schedule) -> None:
    """Ranks, chunks and sizes that cannot be."""
    if schedule.workers < 1:
        raise ScheduleError(f"a schedule of {schedule.workers} workers is not possible: it needs at least 1")
    weights = schedule.chunk_weights
    if weights.ndim != 1 or not len(weights) or int(weights.min()) < 0 or not 0 < float(weights.sum()) < MOST_WEIGHT:
        raise ScheduleError("the weights of the chunks must be whole numbers, none negative, in sum between 1 and 2^53")
    lengths = {
        len(array) for array in (schedule.source, schedule.destination, schedule.chunk, schedule.op, schedule.span)
    }
    if len(lengths) != 1:
        raise ScheduleError("source, destination, chunk, op and span must have the same length")
    people = schedule.participants
    if not people or sorted(set(people)) != list(people) or people[0] < 0 or people[-1] >= schedule.workers:
        raise ScheduleError(f"participants {people} must be ranks below {schedule.workers}, in order, at least one")
    source, destination = schedule.source, schedule.destination
    wrong = (
        (source < 0) | (source >= schedule.workers) | (destination < 0) | (destination >= schedule.workers)
        | (source == destination) | (schedule.chunk < 0) | (schedule.span < 1) | (schedule.op > COPY)
        | (schedule.chunk.astype(np.int64) + schedule.span > len(weights))
    )  # fmt: skip
    if wrong.any():
        i = int(np.argmax(wrong))
        fields = [int(array[i]) for array in (source, destination, schedule.chunk, schedule.span, schedule.op)]
        raise ScheduleError(
            f"transfer {i} (source {fields[0]}, destination {fields[1]}, chunk {fields[2]}, span {fields[3]}, op {fields[4]}) is "
            f"not possible with {schedule.workers} workers and {len(weights)} chunks"
        )
