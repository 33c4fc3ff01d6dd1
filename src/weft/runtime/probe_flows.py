"""What a rank does in one round of a probe: a stream out, a stream in, or short messages to and fro.

A stream lasts a time, not a number of bytes, so that all streams of a round are under way at once however fast each is. Both
ends know the sizes of its messages beforehand: each is a part of all before it, so that a slow stream has small ones, whose
arrivals give its rate as finely as a fast one's do. When the sender's time is over, it marks a message, after which come only
those that the receiver is waiting for already. The rate is measured where the bytes arrive, by one clock, in the later part of
the round: the beginning, in which connections speed up and empty queues swallow bytes, does not count.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Thread

import torch

from weft.runtime.transport import Pending, Transport, TransportError

FIRST, LARGEST = 16_384, 2_097_152
"""bytes of a stream's first message, and at most"""
GROWTH = 24
"""A message is this part of all before it."""
AHEAD = 4
"""Messages that the receiver waits for at once; the sender is held back until then, so no more are on their way."""
NO_LIMIT = 1e11
"""bytes that no stream of a round reaches"""
SETTLED = 0.4
"""The part of a round that does not count."""
STREAM_TAG, PING_TAG = 0x10000, 0x10001
"""Above the tags of executions."""


@dataclass(frozen=True, slots=True)
class Stream:
    """What a receiver has seen: bytes per second once settled, and all bytes."""

    rate: float
    nbytes: int


class Buffers:
    """What streams are made of: zeros, or ones once the end is marked."""

    def __init__(self) -> None:
        self.more, self.last = torch.zeros(LARGEST, dtype=torch.uint8), torch.ones(LARGEST, dtype=torch.uint8)
        self.received = [torch.zeros(LARGEST, dtype=torch.uint8) for _ in range(AHEAD)]


def message_sizes() -> Iterator[int]:
    """The sizes of a stream's messages."""
    total = 0
    while True:
        size = min(max(FIRST, total // GROWTH), LARGEST)
        yield size
        total += size


def stream_limit(budget: float) -> int:
    """After how many bytes a stream's end must be marked so that it has no more than ``budget``; 0 where that cannot be."""
    totals = [0]
    for size in message_sizes():
        totals.append(totals[-1] + size)
        if totals[-1] > min(budget, NO_LIMIT):
            break
    # Marked are the last messages, as many as the receiver waits for at once.
    return totals[-2 - AHEAD] if len(totals) > 2 + AHEAD else 0


def exchange(
    transport: Transport,
    buffers: Buffers,
    to: int | None,
    source: int | None,
    seconds: float,
    most: int,
    patience: float,
) -> tuple[Stream, int]:
    """Send a stream, receive one, or both; what has arrived, and the bytes that were sent.

    A stream ends after ``seconds`` or ``most`` bytes; ``patience`` is how long a message may take.
    """
    sent: list[int] = [0]
    errors: list[TransportError] = []

    def send() -> None:
        try:
            assert to is not None
            sent[0] = _send(transport, buffers, to, seconds, most, patience)
        except TransportError as error:
            errors.append(error)

    sender = Thread(target=send, name="weft-probe", daemon=True)
    if to is not None:
        sender.start()
    stream = Stream(0.0, 0) if source is None else _received(transport, buffers, source, seconds, patience)
    if to is not None:
        sender.join()
    if errors:
        raise errors[0]
    return stream, sent[0]


def _send(transport: Transport, buffers: Buffers, peer: int, seconds: float, most: int, patience: float) -> int:
    ends = time.monotonic() + seconds
    flying: deque[Pending] = deque()
    total, left = 0, -1
    for size in message_sizes():
        if left < 0 and (time.monotonic() >= ends or total >= most):
            left = AHEAD
        chosen = buffers.more if left < 0 else buffers.last
        flying.append(transport.send(chosen[:size], peer, STREAM_TAG))
        total += size
        left -= left > 0
        if left == 0:
            break
        if len(flying) >= AHEAD:
            flying.popleft().wait(patience)
    for pending in flying:
        pending.wait(patience)
    return total


def _received(transport: Transport, buffers: Buffers, peer: int, seconds: float, patience: float) -> Stream:
    begun = time.monotonic()
    sizes = message_sizes()
    coming: deque[tuple[Pending, int, torch.Tensor]] = deque()
    arrived: list[tuple[float, int]] = []
    total, open_ended = 0, True

    def expect(place: torch.Tensor) -> None:
        size = next(sizes)
        coming.append((transport.receive(place[:size], peer, STREAM_TAG), size, place))

    for place in buffers.received:
        expect(place)
    while coming:
        pending, size, place = coming.popleft()
        pending.wait(patience)
        total += size
        arrived.append((time.monotonic() - begun, total))
        open_ended = open_ended and int(place[0]) == 0
        if open_ended:
            expect(place)
    return Stream(settled_rate(arrived, seconds), total)


def settled_rate(arrived: list[tuple[float, int]], seconds: float) -> float:
    """Bytes per second of a stream, of which so many bytes had come at these times, in the part of a round that counts."""
    inside = [point for point in arrived if SETTLED * seconds <= point[0] <= seconds]
    if len(inside) < 3 or inside[-1][0] - inside[0][0] < 0.25 * (1 - SETTLED) * seconds:
        inside = arrived if len(arrived) < 4 else arrived[len(arrived) // 3 :]
    (first, before), (last, after) = inside[0], inside[-1]
    return (after - before) / (last - first) if last > first else 0.0


def half_round_trip(transport: Transport, peer: int, rounds: int, patience: float) -> float:
    """The seconds that a short message takes: half of the shortest of several round trips. The lower rank begins."""
    out, back = torch.zeros(1, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)
    best = float("inf")
    for _ in range(rounds):
        begun = time.perf_counter()
        if transport.rank < peer:
            transport.send(out, peer, PING_TAG).wait(patience)
        transport.receive(back, peer, PING_TAG).wait(patience)
        if transport.rank > peer:
            transport.send(out, peer, PING_TAG).wait(patience)
        else:
            best = min(best, time.perf_counter() - begun)
    return best / 2
