"""The ground for tests and studies: all workers in one process, one after the other, and every message counted."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from weft.errors import ExecutionError
from weft.sparse.index_coding import Bytes
from weft.sparse.rounds import Arrived, Part, Result, Round


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message: who sent it to whom, in the how-manieth round of each, and what it had."""

    source: int
    destination: int
    sent_in: int
    received_in: int
    nbytes: int
    elements: int


@dataclass(frozen=True, slots=True, eq=False)
class Conversation(Generic[Result]):
    """What all workers got, and all that was sent."""

    results: tuple[Result, ...]
    deliveries: tuple[Delivery, ...]
    rounds: tuple[int, ...]
    """of every worker"""

    def received(self, worker: int) -> int:
        """Indexes and values that came to a worker."""
        return sum(delivery.elements for delivery in self.deliveries if delivery.destination == worker)

    def sent_bytes(self, worker: int) -> int:
        return sum(delivery.nbytes for delivery in self.deliveries if delivery.source == worker)

    def messages(self, worker: int) -> int:
        """How many came to a worker."""
        return sum(delivery.destination == worker for delivery in self.deliveries)

    @property
    def nbytes(self) -> int:
        return sum(delivery.nbytes for delivery in self.deliveries)


class _Worker(Generic[Result]):
    def __init__(self, rank: int, part: Part[Result]) -> None:
        self.rank, self.part = rank, part
        self.round = -1
        self.waits_for: Round | None = None
        self.result: list[Result] = []

    def go_on(self, arrived: Arrived | None) -> Round | None:
        """The next round, or None at the end."""
        self.round += 1
        try:
            self.waits_for = next(self.part) if arrived is None else self.part.send(arrived)
        except StopIteration as end:
            self.waits_for = None
            self.result.append(end.value)
        return self.waits_for


def converse(parts: Sequence[Part[Result]]) -> Conversation[Result]:
    """Drive the parts of all workers, in the order of their ranks, to their ends."""
    workers = [_Worker(rank, part) for rank, part in enumerate(parts)]
    channels: dict[tuple[int, int], deque[tuple[int, int, Bytes]]] = defaultdict(deque)
    announced: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    deliveries: list[Delivery] = []

    def post(worker: _Worker[Result], following: Round | None) -> None:
        for peer, message in (following.sends if following else {}).items():
            assert peer != worker.rank, "a worker sends to itself"
            channels[worker.rank, peer].append((worker.round, message.elements, message.data))

        for peer, most in (following.receives if following else {}).items():
            if ahead := announced[worker.rank, peer]:
                assert ahead.popleft() == most, f"{most} bytes from worker {peer} are not what was announced"
        for peer, most in following.ahead if following else ():
            announced[worker.rank, peer].append(most)

    def taken(worker: _Worker[Result], expected: Round) -> dict[int, Bytes]:
        arrived = {}
        for peer, most in expected.receives.items():
            sent_in, elements, data = channels[peer, worker.rank].popleft()
            assert len(data) <= most, f"{len(data)} bytes came from worker {peer} where {most} were expected at most"
            deliveries.append(Delivery(peer, worker.rank, sent_in, worker.round, len(data), elements))
            arrived[peer] = data
        return arrived

    for worker in workers:
        post(worker, worker.go_on(None))
    while waiting := [worker for worker in workers if worker.waits_for is not None]:
        ready = [w for w in waiting if w.waits_for and all(channels[p, w.rank] for p in w.waits_for.receives)]
        if not ready:
            raise ExecutionError(_why_nobody_moves(waiting, channels))
        for worker in ready:
            assert worker.waits_for is not None
            post(worker, worker.go_on(taken(worker, worker.waits_for)))
    assert not any(channels.values()), "messages were sent that nobody expected"
    assert not any(announced.values()), "messages were announced that nobody expected"
    return Conversation(tuple(w.result[0] for w in workers), tuple(deliveries), tuple(w.round for w in workers))


def _why_nobody_moves(
    waiting: Sequence[_Worker[Result]], channels: dict[tuple[int, int], deque[tuple[int, int, Bytes]]]
) -> str:
    waits = [
        f"worker {worker.rank} waits for worker {peer} in round {worker.round + 1}"
        for worker in waiting
        for peer in (worker.waits_for.receives if worker.waits_for else ())
        if not channels[peer, worker.rank]
    ]
    return f"nobody can go on: {'; '.join(waits)}"
