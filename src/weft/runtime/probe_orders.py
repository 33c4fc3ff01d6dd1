"""What rank 0 tells the others while the network is probed, and what they answer.

Rank 0 conducts: it sends an order to every rank, all carry it out, and all answer; when the last answer is there, nothing is
on its way any more. No clock of one rank is ever compared with that of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from weft.errors import ExecutionError
from weft.probing.rounds import NOBODY, Round
from weft.runtime.probe_flows import Buffers, exchange, half_round_trip
from weft.runtime.transport import Transport

ORDER_TAG, ANSWER_TAG, RESULT_TAG = 0x10002, 0x10003, 0x10004
STREAMS, PINGS, RESULT, FAILED = range(4)
PINGED = 8
"""round trips that a pair is asked for"""
MESSAGE_PATIENCE, LEAST_PATIENCE = 60.0, 5.0
"""seconds that one message may take before its sender counts as lost: before anything is known of the network, and at least"""


@dataclass(frozen=True, slots=True)
class Order:
    """A kind; for streams how long and how many bytes each; to whom every rank sends. For a result, its length in bytes."""

    kind: int
    seconds: float
    nbytes: int
    to: tuple[int, ...]
    patience: float
    """seconds that one message may take"""

    def tensor(self) -> torch.Tensor:
        micros = [round(seconds * 1e6) for seconds in (self.seconds, self.patience)]
        return torch.tensor([self.kind, *micros, self.nbytes, *self.to], dtype=torch.int64)

    @staticmethod
    def of(tensor: torch.Tensor) -> Order:
        kind, micros, patience, nbytes, *to = tensor.tolist()
        return Order(kind, micros / 1e6, nbytes, tuple(to), patience / 1e6)

    @staticmethod
    def to_nobody(kind: int, ranks: int, nbytes: int = 0) -> Order:
        """One that sends no streams."""
        return Order(kind, 0.0, nbytes, (NOBODY,) * ranks, MESSAGE_PATIENCE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a rank has received per second, sent, and how long short messages took."""

    rate: float = 0.0
    sent: int = 0
    latency: float = float("inf")

    def tensor(self) -> torch.Tensor:
        return torch.tensor([self.rate, self.sent, self.latency], dtype=torch.float64)

    @staticmethod
    def of(tensor: torch.Tensor) -> Answer:
        rate, sent, latency = tensor.tolist()
        return Answer(rate, int(sent), latency)


def carried_out(transport: Transport, buffers: Buffers, order: Order) -> Answer:
    """This rank's part of an order."""
    here = transport.rank
    to, source = order.to[here], Round(order.to).sources[here]
    if order.kind == PINGS:
        return Answer() if to == NOBODY else Answer(latency=half_round_trip(transport, to, PINGED, order.patience))
    stream, sent = exchange(
        transport,
        buffers,
        None if to == NOBODY else to,
        None if source == NOBODY else source,
        order.seconds,
        order.nbytes,
        order.patience,
    )
    return Answer(stream.rate, sent)


def answers_to(transport: Transport, buffers: Buffers, order: Order) -> list[Answer]:
    """Rank 0: have an order carried out by all ranks; what they answer."""
    others = range(1, transport.size)
    tell(transport, order)
    own = carried_out(transport, buffers, order)
    places = [Answer().tensor() for _ in others]
    coming = [transport.receive(place, rank, ANSWER_TAG) for rank, place in zip(others, places, strict=True)]
    for pending in coming:
        pending.wait(order.patience)
    return [own, *map(Answer.of, places)]


def tell(transport: Transport, order: Order) -> None:
    """Rank 0: give an order to the others."""
    tensor = order.tensor()
    going = [transport.send(tensor, rank, ORDER_TAG) for rank in range(1, transport.size)]
    for pending in going:
        pending.wait(order.patience)


def tell_result(transport: Transport, text: str) -> None:
    """Rank 0: give the result to the others, and end."""
    content = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    tell(transport, Order.to_nobody(RESULT, transport.size, content.numel()))
    going = [transport.send(content, rank, RESULT_TAG) for rank in range(1, transport.size)]
    for pending in going:
        pending.wait(MESSAGE_PATIENCE)


def obey(transport: Transport, buffers: Buffers, patience: float) -> str:
    """All other ranks: carry out orders until the result comes. ``patience`` is how long rank 0 may think."""
    while True:
        place = torch.zeros(4 + transport.size, dtype=torch.int64)
        transport.receive(place, 0, ORDER_TAG).wait(patience)
        order = Order.of(place)
        if order.kind == FAILED:
            raise ExecutionError(f"rank {transport.rank}: rank 0 could not finish the probe; its message says why")
        if order.kind == RESULT:
            content = torch.zeros(order.nbytes, dtype=torch.uint8)
            transport.receive(content, 0, RESULT_TAG).wait(MESSAGE_PATIENCE)
            return bytes(content.tolist()).decode()
        answer = carried_out(transport, buffers, order)
        transport.send(answer.tensor(), 0, ANSWER_TAG).wait(order.patience)


def rates_by_source(order: Round, answers: Sequence[Answer]) -> list[float]:
    """What every stream reached, by its source: receivers measure."""
    return [0.0 if to == NOBODY else answers[to].rate for to in order.destinations]
