"""LoopbackTransport: all ranks are threads of one process. For tests, and for trying things out.

A message is copied when both ends have asked for it, so a sender that overwrites too early, or a receiver that looks
too early, gets wrong numbers here as it would on a network.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from threading import Event, Lock

import torch

from weft.runtime.transport import Pending, TransportError

Channel = tuple[int, int, int]
"""source, destination, tag"""


class _Half:
    """One end of a message."""

    def __init__(self, tensor: torch.Tensor, peer: int) -> None:
        self.tensor, self.peer = tensor, peer
        self.done = Event()
        self.problem: str | None = None

    def wait(self, seconds: float) -> None:
        if not self.done.wait(max(0.0, seconds)):
            raise TransportError(self.peer, f"no answer in {seconds:.3g} s", late=True)
        if self.problem is not None:
            raise TransportError(self.peer, self.problem)

    def end(self, problem: str | None = None) -> None:
        self.problem = problem
        self.done.set()


class _Hub:
    """What all ranks share: the halves that wait for their other half, the notes, and who has left."""

    keeper = None

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = Lock()
        self.sends: dict[Channel, deque[_Half]] = defaultdict(deque)
        self.receives: dict[Channel, deque[_Half]] = defaultdict(deque)
        self.notes: dict[str, str] = {}
        self.gone: set[int] = set()

    def post(self, key: str, text: str) -> None:
        self.notes[key] = text

    def read(self, keys: Sequence[str]) -> list[str | None]:
        return [self.notes.get(key) for key in keys]

    def join(self, channel: Channel, half: _Half, sends: bool) -> None:
        """Match a half with the other that waits longest, or let it wait."""
        mine, others = (self.sends, self.receives) if sends else (self.receives, self.sends)
        with self.lock:
            if self.gone & set(channel[:2]):
                half.end("connection closed")
                return
            if not others[channel]:
                mine[channel].append(half)
                return
            other = others[channel].popleft()
        sender, receiver = (half, other) if sends else (other, half)
        problem = None
        if sender.tensor.numel() == receiver.tensor.numel() and sender.tensor.dtype == receiver.tensor.dtype:
            receiver.tensor.copy_(sender.tensor)
        else:
            problem = f"{sender.tensor.nbytes} bytes were sent where {receiver.tensor.nbytes} were expected"
        sender.end(problem)
        receiver.end(problem)

    def leave(self, rank: int) -> None:
        with self.lock:
            self.gone.add(rank)
            for waiting in (self.sends, self.receives):
                for channel, halves in waiting.items():
                    while rank in channel[:2] and halves:
                        halves.popleft().end("connection closed")


class LoopbackTransport:
    """One rank of several in this process; made by ``loopback``."""

    keeps_tags_apart = True

    def __init__(self, hub: _Hub, rank: int) -> None:
        self._hub = hub
        self.rank, self.size, self.board = rank, hub.size, hub

    def send(self, tensor: torch.Tensor, peer: int, tag: int) -> Pending:
        half = _Half(tensor, peer)
        self._hub.join((self.rank, peer, tag), half, sends=True)
        return half

    def receive(self, tensor: torch.Tensor, peer: int, tag: int) -> Pending:
        half = _Half(tensor, peer)
        self._hub.join((peer, self.rank, tag), half, sends=False)
        return half

    def abort(self) -> None:
        self._hub.leave(self.rank)


def loopback(size: int) -> list[LoopbackTransport]:
    """The transports of so many ranks, which reach each other and nobody else."""
    hub = _Hub(size)
    return [LoopbackTransport(hub, rank) for rank in range(size)]
