"""Parts of sparse collectives on a transport: a round's receives and sends are posted, and when all has come it goes on.

Such an execution stands in line with those of schedules: it has a number, all ranks agree on what it is before the first byte
moves, it has a deadline, and a failure is explained by all ranks together.

How large a message is, only its sender knows. Gloo takes a shorter message than was asked for, so every message is received
into as much memory as it may need, behind its size. Where a transport is stricter, the size travels as a message of its own.

What later rounds expect is posted with the first: gloo then sends at once instead of asking first. It also keeps its thread from
turning in circles, as it does while somebody who posts on the same connection is held up; where workers share processors, that
took a tenth of a call.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, cast

import numpy as np
import torch

from weft.runtime.communicator import TAGS, Communicator, pool
from weft.runtime.deadline import Term
from weft.runtime.ending import Ending
from weft.runtime.execution import Execution
from weft.runtime.process_group import ProcessGroupTransport
from weft.runtime.running import Running
from weft.runtime.threads import ThreadPool
from weft.runtime.transport import Pending, Transport
from weft.sparse.finite import NotFiniteError
from weft.sparse.index_coding import Bytes
from weft.sparse.rounds import Part, Result, Round
from weft.sparse.wire import Message, MessageError

_SIZE = 8
"""bytes of a size"""


@dataclass(frozen=True, slots=True)
class _Expected:
    """One of a channel's messages, by the round in which it is expected."""

    transfer: int


class _Channel:
    """The messages from one peer, as reports see them."""

    waits_for = ""

    def __init__(self, peer: int) -> None:
        self.peer, self.position, self.since = peer, 0, time.monotonic()
        self.messages: list[_Expected] = []

    def expect(self, turn: int) -> None:
        self.messages.append(_Expected(turn))
        self.since = time.monotonic()


class _Words:
    """What reports call the messages."""

    @staticmethod
    def chunks(turn: int) -> str:
        return f"its message of round {turn + 1}"


class _Receive(NamedTuple):
    """A message that may come: its bytes at most, and the memory that it comes to."""

    most: int
    memory: torch.Tensor
    pending: Pending


class PartExecution(Ending, Generic[Result]):
    """A part at work. ``done`` is set when it has ended, well or not; ``computing`` and ``waiting`` say where its time went."""

    program = _Words()

    def __init__(
        self,
        part: Part[Result],
        transport: Transport,
        tag: int,
        term: Term,
        on_end: Callable[[Exception | None], bool],
    ) -> None:
        super().__init__(term, on_end)
        self.error: NotFiniteError | None = None
        """what all ranks raise, although nothing has failed"""
        self.posted_sends: dict[int, int] = {}
        self.bytes_sent = 0
        self.computing = self.waiting = 0.0
        self.result: list[Result] = []
        self._channels: dict[int, _Channel] = {}
        self._part, self._transport, self._tag = part, transport, tag
        self._takes_shorter = isinstance(transport, ProcessGroupTransport) and transport.keeps_tags_apart
        self._sends: list[tuple[Pending, torch.Tensor]] = []
        self._ahead: dict[int, deque[_Receive]] = {}
        self._turn = -1

    @property
    def channels(self) -> list[_Channel]:
        return list(self._channels.values())

    def run(self, threads: ThreadPool, here: bool) -> None:
        """Start; with ``here``, on the calling thread, which is held until the end."""
        if here:
            self._work()
        else:
            threads.run(self._work)

    def _work(self) -> None:
        try:
            following = self._next(None)
            while following is not None:
                following = self._next(self._exchanged(following))
            for send, _ in self._sends:
                send.wait(self.term.left())
            self._sends.clear()
            self._end(None)
        except Exception as error:
            self._end(error)

    def _next(self, arrived: dict[int, Bytes] | None) -> Round | None:
        """Let the part work until its next round; None at its end."""
        begun = time.monotonic()
        self._turn += 1
        try:
            return next(self._part) if arrived is None else self._part.send(arrived)
        except StopIteration as end:
            self.result.append(end.value)
        except NotFiniteError as error:
            self.error = error
        finally:
            self.computing += time.monotonic() - begun
        return None

    def _exchanged(self, turn: Round) -> dict[int, Bytes]:
        """What has come in a round, after all of it was posted."""
        begun = time.monotonic()
        posted = {}
        for peer, most in turn.receives.items():
            self._channels.setdefault(peer, _Channel(peer)).expect(self._turn)
            posted[peer] = self._posted(peer, most)
        for peer, message in turn.sends.items():
            self._send(peer, message)
        if self._takes_shorter:
            for peer, most in turn.ahead:
                self._ahead.setdefault(peer, deque()).append(self._post(peer, most))
        begun += self._meanwhile(turn)
        arrived = {peer: self._arrived(peer, receive) for peer, receive in posted.items()}
        self.waiting += time.monotonic() - begun
        return arrived

    def _post(self, peer: int, most: int) -> _Receive:
        memory = torch.empty(_SIZE + most if self._takes_shorter else _SIZE, dtype=torch.uint8)
        return _Receive(most, memory, self._transport.receive(memory, peer, self._tag))

    def _posted(self, peer: int, most: int) -> _Receive:
        """A receive that was posted ahead, or is now."""
        if not self._ahead.get(peer):
            return self._post(peer, most)
        receive = self._ahead[peer].popleft()
        assert receive.most == most, f"{receive.most} bytes were announced, not {most}"
        return receive

    def _meanwhile(self, turn: Round) -> float:
        """Do what there is to do while messages are on their way; the seconds that it takes."""
        if turn.meanwhile is None:
            return 0.0
        begun = time.monotonic()
        turn.meanwhile()
        taken = time.monotonic() - begun
        self.computing += taken
        return taken

    def _send(self, peer: int, message: Message) -> None:
        size = np.frombuffer(np.uint64(len(message.data)).tobytes(), np.uint8)
        parts = [np.concatenate([size, message.data])] if self._takes_shorter else [size.copy(), message.data.copy()]
        for part in parts:
            tensor = torch.from_numpy(part)
            if len(part):
                self._sends.append((self._transport.send(tensor, peer, self._tag), tensor))
        self.posted_sends[peer] = self.posted_sends.get(peer, 0) + 1
        self.bytes_sent += _SIZE + len(message.data)

    def _arrived(self, peer: int, receive: _Receive) -> Bytes:
        receive.pending.wait(self.term.left())
        data: Bytes = receive.memory.numpy()
        size = int(data[:_SIZE].view(np.uint64)[0])
        if size > receive.most:
            raise MessageError(
                f"rank {peer} sends {size} bytes where {receive.most} are possible: does it do the same?"
            )
        if self._takes_shorter:
            data = data[_SIZE : _SIZE + size]
        else:
            body = torch.empty(size, dtype=torch.uint8)
            if size:
                self._transport.receive(body, peer, self._tag).wait(self.term.left())
            data = body.numpy()
        self._channels[peer].position += 1
        return data


class RunningPart(Running, Generic[Result]):
    """A part in flight."""

    execution: Any

    def result(self) -> Result:
        """What the part returned, as soon as it has; raises ``PeerError`` if it cannot, or what the part itself raised."""
        self.wait()
        if self.execution.error is not None:
            raise self.execution.error
        found: Result = self.execution.result[0]
        return found


def launch_part(
    communicator: Communicator, part: Part[Result], subject: str, *, timeout: float | None = None, here: bool = False
) -> RunningPart[Result]:
    """Start a rank's part in a collective; all ranks start theirs in the same order. ``subject`` is what they agree on."""

    def made(number: int, term: Term, ended: Callable[[Exception | None], bool]) -> RunningPart[Result]:
        execution = PartExecution(part, communicator.transport, number % TAGS, term, ended)
        return RunningPart(communicator, cast(Execution, execution), number, subject)

    running = cast(RunningPart[Result], communicator.enter(subject, timeout, made))
    running.execution.run(pool, here)
    return running
