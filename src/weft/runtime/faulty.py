"""FaultyTransport: another transport with faults: messages that are late or lost, and a rank that hangs or dies."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event, Lock, Thread

import torch

from weft.errors import InputError
from weft.runtime.transport import Board, Pending, Transport, TransportError


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong at one rank. Operations (sends and receives) are counted from 0."""

    delay: float = 0.0
    """every message leaves up to so many seconds late, in the order of its channel"""
    seed: int = 0
    drop: frozenset[int] = field(default_factory=frozenset)
    """sends, by number, that never arrive although the sender believes so; nothing behind them in the channel does either,
    for a channel is a stream"""
    hang_after: int | None = None
    """from this operation on the rank neither sends, receives nor answers, and its connections stay open"""
    die_after: int | None = None
    """the same, but its connections are closed"""

    def __post_init__(self) -> None:
        if self.delay < 0:
            raise InputError(f"a delay of {self.delay} s is not possible")


class _Never:
    """A message that gets nowhere, of a rank that hangs, until its transport is closed, or is dead."""

    def __init__(self, peer: int, dead: bool, closed: Event) -> None:
        self._peer, self._dead, self._closed = peer, dead, closed

    def wait(self, seconds: float) -> None:
        if self._dead:
            raise TransportError(self._peer, "this rank is dead")
        if self._closed.wait(max(0.0, seconds)):
            raise TransportError(self._peer, "this rank hung until its transport was closed")
        raise TransportError(self._peer, f"no answer in {seconds:.3g} s", late=True)


class _Lost:
    """A message that is lost on its way; its sender does not know."""

    def wait(self, seconds: float) -> None:
        del seconds


class _Late:
    """A message that is sent later, by another thread."""

    def __init__(self, tensor: torch.Tensor, peer: int) -> None:
        self.tensor, self.peer = tensor, peer
        self._sent = Event()
        self._pending: Pending | None = None
        self._problem: TransportError | None = None

    def send(self, transport: Transport, tag: int) -> None:
        try:
            self._pending = transport.send(self.tensor, self.peer, tag)
        except TransportError as problem:
            self._problem = problem
        self._sent.set()

    def wait(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        if not self._sent.wait(max(0.0, seconds)):
            raise TransportError(self.peer, f"not sent in {seconds:.3g} s", late=True)
        if self._problem is not None:
            raise self._problem
        assert self._pending is not None
        self._pending.wait(ends - time.monotonic())


class FaultyTransport:
    """A transport of which one rank's end has faults."""

    def __init__(self, transport: Transport, faults: Faults) -> None:
        self.rank, self.size = transport.rank, transport.size
        self.keeps_tags_apart = transport.keeps_tags_apart
        self.board: Board = _SilentableBoard(transport.board, self)
        self.silent = False
        self._transport, self._faults = transport, faults
        self._lock = Lock()
        self._closed = Event()
        self._operations = self._sends = 0
        self._queues: dict[tuple[int, int], SimpleQueue[_Late | None]] = {}
        self._cut: set[tuple[int, int]] = set()

    def send(self, tensor: torch.Tensor, peer: int, tag: int) -> Pending:
        with self._lock:
            number, self._sends = self._sends, self._sends + 1
            if number in self._faults.drop:
                self._cut.add((peer, tag))
        if self._is_gone():
            return self._never(peer)
        if (peer, tag) in self._cut:
            return _Lost()
        if not self._faults.delay:
            return self._transport.send(tensor, peer, tag)
        late = _Late(tensor, peer)
        self._queue(peer, tag).put(late)
        return late

    def receive(self, tensor: torch.Tensor, peer: int, tag: int) -> Pending:
        return self._never(peer) if self._is_gone() else self._transport.receive(tensor, peer, tag)

    def abort(self) -> None:
        self.close()
        if not self.silent:
            self._transport.abort()

    def close(self) -> None:
        """End the threads that delay messages, and what a rank that hangs is waiting for."""
        self._closed.set()
        with self._lock:
            for queue in self._queues.values():
                queue.put(None)

    def _never(self, peer: int) -> _Never:
        return _Never(peer, self._faults.die_after is not None, self._closed)

    def _is_gone(self) -> bool:
        faults = self._faults
        with self._lock:
            number, self._operations = self._operations, self._operations + 1
        limit = min((n for n in (faults.hang_after, faults.die_after) if n is not None), default=None)
        if limit is not None and number >= limit and not self.silent:
            self.silent = True
            if faults.die_after is not None:
                self._transport.abort()
        return self.silent

    def _queue(self, peer: int, tag: int) -> SimpleQueue[_Late | None]:
        with self._lock:
            if (peer, tag) not in self._queues:
                queue: SimpleQueue[_Late | None] = SimpleQueue()
                self._queues[peer, tag] = queue
                # A string seeds the same on every run, unlike a tuple's hash.
                draw = random.Random(f"{self._faults.seed} {self.rank} {peer} {tag}")  # noqa: S311
                Thread(target=self._deliver, args=(queue, tag, draw), name="weft-late", daemon=True).start()
            return self._queues[peer, tag]

    def _deliver(self, queue: SimpleQueue[_Late | None], tag: int, draw: random.Random) -> None:
        while (late := queue.get()) is not None:
            time.sleep(draw.uniform(0, self._faults.delay))
            late.send(self._transport, tag)


class _SilentableBoard:
    """The board as a rank sees it that may be gone."""

    def __init__(self, board: Board, transport: FaultyTransport) -> None:
        self.keeper = board.keeper
        self._board, self._transport = board, transport

    def post(self, key: str, text: str) -> None:
        if not self._transport.silent:
            self._board.post(key, text)

    def read(self, keys: Sequence[str]) -> list[str | None]:
        return [None] * len(keys) if self._transport.silent else self._board.read(keys)
