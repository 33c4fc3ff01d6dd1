"""One execution of a program: a thread per incoming channel, because a backend such as gloo cannot be polled.

A thread keeps receives posted ahead, waits for the next message of its channel, applies it when it is its turn, and posts
the sends that became ready by it, in the order of their channels. While it adds, the backend moves other messages.

Nothing waits in a circle. Take the first transfer of the list that is not applied yet, with its partner if it is an
exchange. Everything before it is applied, so its source has all that it carries, and all before it in its channel
has left: it is sent. Its destination has applied everything before it in the channel, so at least one receive is
posted, and that one is for it. When it has arrived, its turn has come, and the sends that its application must
not overtake are before it in the list, or its own partner's, which by the same argument has been sent and has
arrived in scratch memory. So it is applied, and then there is a next one.

The result does not depend on time: what is added to a cell, and in which order, is fixed by the program.

**Rounded on the wire.** Messages may travel in a smaller type than the tensor's: they are rounded when they are sent, and sums
are made in the tensor's own type. Both sides of an exchange must add the same two terms, so what is sent there is rounded at
its sender too; and in the end everything is, so that whoever made a sum has what the others were sent of it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from threading import Condition

import torch

from weft.runtime.deadline import Term
from weft.runtime.ending import Ending, StoppedError
from weft.runtime.program import Incoming, Program
from weft.runtime.scratch import Scratch, slots_for
from weft.runtime.threads import ThreadPool
from weft.runtime.transport import Pending, Transport, TransportError

MOST_POSTED = 16
"""Receives that a channel keeps posted at most."""


class IncomingChannel:
    """The messages from one peer: which are posted, which one is awaited since when, and memory for those in between."""

    def __init__(
        self, peer: int, messages: Sequence[Incoming], flat: torch.Tensor, scratch: Scratch, wire: torch.dtype
    ) -> None:
        self.peer, self.messages = peer, messages
        self.posted: deque[tuple[Pending, torch.Tensor, torch.Tensor | None]] = deque()
        self.next_posted = 0
        self.position = 0
        self.since = time.monotonic()
        self.waits_for = ""
        """what holds the message at ``position`` up once it has arrived; nothing while it has not"""
        self._flat, self._scratch, self._wire = flat, scratch, wire
        self._in_place = wire == flat.dtype
        largest = max((m.stop - m.start for m in messages if not self.is_direct(m)), default=0) * wire.itemsize
        self._left = slots_for(largest, sum(not self.is_direct(m) for m in messages))
        self._slot_bytes = largest
        self._slots: list[torch.Tensor] = []

    def is_direct(self, message: Incoming) -> bool:
        """Whether it is received where it belongs: what is rounded cannot be."""
        return message.direct and self._in_place

    def post_ahead(self, transport: Transport, tag: int) -> None:
        """Post receives for the next messages, as far as there is memory for them."""
        while self.next_posted < len(self.messages) and len(self.posted) < MOST_POSTED:
            message = self.messages[self.next_posted]
            slot = None
            if self.is_direct(message):
                target = self._flat[message.start : message.stop]
            else:
                slot = self._slot()
                if slot is None:
                    return
                size = (message.stop - message.start) * self._wire.itemsize
                target = slot[:size].view(self._wire)
            self.posted.append((transport.receive(target, self.peer, tag), target, slot))
            self.next_posted += 1

    def _slot(self) -> torch.Tensor | None:
        if self._slots:
            return self._slots.pop()
        if self._left == 0:
            return None
        self._left -= 1
        return self._scratch.take(self._slot_bytes, self._flat.device)

    def applied(self, slot: torch.Tensor | None) -> None:
        """The message at ``position`` is applied; its memory is free for the next."""
        if slot is not None:
            self._slots.append(slot)
        self.position += 1
        self.since = time.monotonic()
        self.waits_for = ""

    def close(self) -> None:
        """Everything has arrived: give the memory back."""
        for slot in self._slots:
            self._scratch.give_back(slot)


class Execution(Ending):
    """A program at work on a tensor. ``done`` is set when it has ended, well or not."""

    def __init__(
        self,
        program: Program,
        flat: torch.Tensor,
        transport: Transport,
        tag: int,
        scratch: Scratch,
        term: Term,
        on_end: Callable[[Exception | None], bool],
        wire: torch.dtype | None = None,
    ) -> None:
        super().__init__(term, on_end)
        self.program, self.tag = program, tag
        self.wire = wire or flat.dtype
        self.channels = [
            IncomingChannel(peer, [program.incoming[i] for i in ids], flat, scratch, self.wire)
            for peer, ids in program.sources.items()
        ]
        self._exchanged = {o for message in program.incoming if not message.copies for o in message.guards}
        """outgoing messages whose cells are added to afterwards"""
        self.posted_sends = dict.fromkeys(program.destinations, 0)
        self._flat, self._transport = flat, transport
        self._changed = Condition(self._lock)
        self._watched = 0
        self._applied = bytearray(len(program.incoming))
        self._missing = [len(message.after) for message in program.outgoing]
        self._sends: list[Pending | None] = [None] * len(program.outgoing)
        self._rounded: dict[int, torch.Tensor] = {}
        """what is on its way, by outgoing message, where it is not the tensor's own memory"""
        self._working = max(1, len(self.channels))
        self._stream = torch.cuda.current_stream(flat.device) if flat.is_cuda else None

    def run(self, pool: ThreadPool, here: bool) -> None:
        """Start. With ``here``, the calling thread works on one of the channels until its end."""
        try:
            for channel in self.channels:
                channel.post_ahead(self._transport, self.tag)
            with self._lock:
                for peer in self.program.destinations:
                    self._post_sends(peer)
        except Exception as error:
            self._end(error)
            return
        if not self.channels:
            self._guarded(None)
            return
        for k, channel in enumerate(self.channels):
            if not (here and k == 0):
                pool.run(lambda channel=channel: self._guarded(channel))  # type: ignore[misc]
        if here:
            self._guarded(self.channels[0])

    def _guarded(self, channel: IncomingChannel | None) -> None:
        try:
            # On a GPU everything happens on the stream of whoever launched it.
            with torch.cuda.stream(self._stream) if self._stream is not None else nullcontext():
                if channel is not None:
                    self._receive(channel)
                with self._lock:
                    self._working -= 1
                    last = self._working == 0
                if last:
                    self._drain()
                    self._end(None)
        except StoppedError:
            pass
        except Exception as error:
            self._end(error)

    def _wake(self) -> None:
        self._changed.notify_all()

    def _receive(self, channel: IncomingChannel) -> None:
        ids = self.program.sources[channel.peer]
        for i, message in zip(ids, channel.messages, strict=True):
            channel.post_ahead(self._transport, self.tag)
            pending, arrived, slot = channel.posted.popleft()
            pending.wait(self.term.left())
            if not channel.is_direct(message):
                self._await_turn(channel, message)
                target = self._flat[message.start : message.stop]
                if message.copies:
                    target.copy_(arrived)
                else:
                    target.add_(arrived)
            self._advance(i, message)
            channel.applied(slot)
        channel.close()

    def _await_turn(self, channel: IncomingChannel, message: Incoming) -> None:
        """Wait for the writes before a message, and for the sends that still read where it will write."""
        for earlier in message.after:
            if not self._applied[earlier]:
                channel.waits_for = f"its turn, after {self.program.chunks(self.program.incoming[earlier].transfer)}"
                self._await(lambda earlier=earlier: bool(self._applied[earlier]), channel)  # type: ignore[misc]
        for o in message.guards:
            if self._sends[o] is None:
                channel.waits_for = (
                    f"its turn, after the send of {self.program.chunks(self.program.outgoing[o].transfer)}"
                )
                self._await(lambda o=o: self._sends[o] is not None, channel)  # type: ignore[misc]
            send = self._sends[o]
            assert send is not None
            send.wait(self.term.left())

    def _await(self, happened: Callable[[], bool], channel: IncomingChannel) -> None:
        with self._changed:
            self._watched += 1
            in_time = self._changed.wait_for(lambda: self._stopped or happened(), max(0.0, self.term.left()))
            self._watched -= 1
            if self._stopped:
                raise StoppedError
        if not in_time:
            raise TransportError(channel.peer, "no turn in time", late=True)

    def _advance(self, applied: int, message: Incoming) -> None:
        """A message is applied: post what became ready by it."""
        with self._lock:
            self._applied[applied] = 1
            for o in message.releases:
                self._missing[o] -= 1
                if not self._missing[o]:
                    self._post_sends(self.program.outgoing[o].peer)
            if self._watched:
                self._changed.notify_all()

    def _post_sends(self, peer: int) -> None:
        """Post the sends to a peer that are ready, up to the first that is not: they travel in order."""
        ids = self.program.destinations[peer]
        at = self.posted_sends[peer]
        while at < len(ids) and not self._missing[ids[at]] and not self._stopped:
            message = self.program.outgoing[ids[at]]
            part = self._flat[message.start : message.stop]
            if self.wire != self._flat.dtype:
                part = self._rounded[ids[at]] = part.to(self.wire)
                if ids[at] in self._exchanged:
                    self._flat[message.start : message.stop] = part
            self._sends[ids[at]] = self._transport.send(part, peer, self.tag)
            at += 1
            self.posted_sends[peer] = at

    def _drain(self) -> None:
        """Wait until everything has left: the tensor is the caller's again."""
        for send in self._sends:
            assert send is not None
            send.wait(self.term.left())
        self._rounded.clear()
        if self.wire != self._flat.dtype:
            self._flat.copy_(self._flat.to(self.wire))
