"""probe: measure the network between the ranks of a process group.

All ranks call it together. Pairs send to each other in N - 1 rounds of disjoint pairs, both ways at once; then, because a lone
pair cannot see an uplink that it shares, rounds of streams that tell apart which workers share one (``weft.probing``). Rates
are what a receiver has seen of payload, so a link is written down with what it carries for people, about 95% of its raw rate.
"""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch.distributed as dist

from weft.errors import InputError
from weft.network import Network
from weft.probing import NOBODY, Findings, Pair, Round, compile_inference, findings_of, investigate, most_rounds
from weft.runtime import probe_orders, together
from weft.runtime.communicators import carrier
from weft.runtime.probe_failure import probe_error
from weft.runtime.probe_flows import AHEAD, FIRST, Buffers, stream_limit
from weft.runtime.probe_orders import (
    FAILED,
    PINGS,
    STREAMS,
    Answer,
    Order,
    answers_to,
    obey,
    rates_by_source,
    tell,
    tell_result,
)
from weft.runtime.process_group import ProcessGroupTransport
from weft.runtime.transport import Transport, TransportError

SECONDS, BYTES = 60.0, 4_000_000_000
"""What a probe may take unless told otherwise: seconds of measuring, and bytes that any rank sends."""
ROUND_SECONDS, SHORTEST_ROUND = 0.4, 0.02
OVERDUE = 10.0
"""times as long as any order has taken beyond its streams, and a message is lost"""
THINKING = 300.0
"""seconds that rank 0 may need besides, such as for compiling on the first run ever"""
LEAVING = 60.0
"""seconds in which all must have heard what was found"""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe has found; the same on every rank."""

    network: Network
    regions: tuple[tuple[int, ...], ...]
    """All ranks, by region; one region where no uplink holds anybody back."""
    uplinks_felt: tuple[bool, ...]
    """By region, whether its uplink was seen to hold streams back; the rate of one that was not is a guess."""
    fit_error: float
    """The median of |measured / expected - 1| over the links that held streams back, in all rounds."""
    margin: float
    """How much likelier than any other the network is, in natural logarithms."""
    rounds: int
    seconds: float
    bytes: int
    """All that was sent, by all ranks together."""
    rank_bytes: int
    """The most that one rank has sent."""
    pairs: tuple[Pair, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it; ``network`` is the text of the network file."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        pairs = [asdict(pair) | {"latency": _finite(pair.latency)} for pair in self.pairs]
        return facts | {
            "network": self.network.to_yaml(),
            "regions": [list(region) for region in self.regions],
            "uplinks_felt": list(self.uplinks_felt),
            "margin": _finite(self.margin),
            "workers": len(self.network.workers),
            "pairs": pairs,
        }

    @staticmethod
    def of_json(facts: dict[str, Any]) -> Probed:
        """What ``to_json`` was made of."""
        return Probed(
            Network.parse(facts["network"]),
            tuple(map(tuple, facts["regions"])),
            tuple(facts["uplinks_felt"]),
            facts["fit_error"],
            _number(facts["margin"]),
            facts["rounds"],
            facts["seconds"],
            facts["bytes"],
            facts["rank_bytes"],
            tuple(Pair(**(pair | {"latency": _number(pair["latency"])})) for pair in facts["pairs"]),
        )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None) -> float:
    return math.inf if value is None else value


def probe(
    group: dist.ProcessGroup | None = None,
    *,
    seconds: float = SECONDS,
    nbytes: int = BYTES,
    progress: Progress | None = None,
) -> Probed:
    """Measure the network between the ranks of a group, which all call this together; every rank gets the same.

    It measures for at most ``seconds`` and the round that is under way then, and no rank sends more than ``nbytes``.
    Nothing else should use the network meanwhile. ``progress`` is called on rank 0.
    """
    return probe_on(ProcessGroupTransport(carrier(group)), seconds=seconds, nbytes=nbytes, progress=progress)


def probe_from_environment(
    *, seconds: float = SECONDS, nbytes: int = BYTES, progress: Progress | None = None
) -> Probed:
    """The same in a group of its own, made from what torchrun and ``weft emulate`` put into the environment."""
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    try:
        found = probe(seconds=seconds, nbytes=nbytes, progress=progress)
        together.barrier(timeout=LEAVING)  # whoever leaves first takes connections with it
        return found
    finally:
        dist.destroy_process_group()


def probe_on(
    transport: Transport, *, seconds: float = SECONDS, nbytes: int = BYTES, progress: Progress | None = None
) -> Probed:
    """The same on any transport."""
    if not seconds > 0 or not nbytes > 0:
        raise InputError(f"{seconds:g} s and {nbytes} bytes are not enough to probe with: both must be more than 0")
    least = (AHEAD + 1) * FIRST * (most_rounds(transport.size) + 1)
    if nbytes < least:
        raise InputError(f"{nbytes} bytes are not enough to probe {transport.size} ranks with: allow {least} or more")
    transport.board.post(f"name/{transport.rank}", socket.gethostname())
    buffers = Buffers()
    try:
        if transport.rank == 0:
            return _conducted(transport, buffers, seconds, nbytes, progress)
        return Probed.of_json(json.loads(obey(transport, buffers, seconds + THINKING)))
    except TransportError as error:
        raise probe_error(transport, error) from error


class _Conductor:
    """Rank 0's view of a probe: how long rounds may be, and what has been spent."""

    def __init__(
        self, transport: Transport, buffers: Buffers, seconds: float, nbytes: int, progress: Progress | None
    ) -> None:
        self.transport, self.buffers, self.progress = transport, buffers, progress
        self.begun = time.monotonic()
        self.allowed = seconds
        self.rounds, self.most = 0, most_rounds(transport.size) + 1
        self.sent = np.zeros(transport.size, dtype=np.int64)
        self.latencies = np.full((transport.size, transport.size), np.inf)
        self.fastest, self.longest = 0.0, 0.0
        self.stream_bytes = stream_limit(nbytes / self.most)

    @property
    def spent(self) -> float:
        return time.monotonic() - self.begun

    def over(self) -> bool:
        return self.spent > self.allowed

    def round_seconds(self) -> float:
        """Long enough for connections to get up to speed, short enough for all rounds together."""
        latency = float(np.median(self.latencies[np.isfinite(self.latencies)])) if self.rounds > 1 else 0.0
        longest = min(ROUND_SECONDS + 40 * latency, 0.4 * self.allowed / self.most)
        if self.fastest > 0:
            longest = min(longest, self.stream_bytes / self.fastest)
        return max(longest, SHORTEST_ROUND)

    def measure(self, one: Round) -> list[float]:
        """Have a round carried out: streams, and before them short messages where pairs meet for the first time."""
        if one.sources == one.destinations and self.rounds < self.transport.size + 1:
            self._ping(one)
        answers = self._answers(STREAMS, one, self.round_seconds(), self.stream_bytes)
        self.sent += [answer.sent for answer in answers]
        rates = rates_by_source(one, answers)
        self.fastest = max(self.fastest, *rates)
        self.rounds += 1
        if self.progress is not None:
            self.progress(self.rounds, self.most)
        return rates

    def _answers(self, kind: int, one: Round, seconds: float = 0.0, nbytes: int = 0) -> list[Answer]:
        """What all answer to an order. Messages may take many times as long as any so far, once all pairs have met."""
        begun = time.monotonic()
        met = self.rounds > self.transport.size
        patience = max(probe_orders.LEAST_PATIENCE, OVERDUE * self.longest) if met else probe_orders.MESSAGE_PATIENCE
        order = Order(kind, seconds, nbytes, one.destinations, min(patience, probe_orders.MESSAGE_PATIENCE))
        answers = answers_to(self.transport, self.buffers, order)
        self.longest = max(self.longest, time.monotonic() - begun - seconds)
        return answers

    def _ping(self, one: Round) -> None:
        answers = self._answers(PINGS, one)
        for rank, (peer, answer) in enumerate(zip(one.destinations, answers, strict=True)):
            if peer != NOBODY and rank < peer:
                self.latencies[rank, peer] = self.latencies[peer, rank] = answer.latency

    def probed(self, findings: Findings) -> Probed:
        found = findings
        return Probed(
            found.network, found.regions, found.uplinks_felt, found.fit_error, found.margin,
            self.rounds, self.spent, int(self.sent.sum()), int(self.sent.max()), found.pairs,
        )  # fmt: skip


def _conducted(
    transport: Transport, buffers: Buffers, seconds: float, nbytes: int, progress: Progress | None
) -> Probed:
    workers = transport.size
    try:
        compile_inference()
        conductor = _Conductor(transport, buffers, seconds, nbytes, progress)
        if workers > 1:
            # Connections are opened, and it is seen how fast the network is at all; it does not count.
            conductor.measure(Round(tuple((rank + 1) % workers for rank in range(workers))))
        investigation = investigate(conductor.measure, workers, conductor.over)
        findings = findings_of(investigation, conductor.latencies, _names(transport))
        text = json.dumps(conductor.probed(findings).to_json())
    except TransportError:
        raise
    except BaseException:
        tell(transport, Order.to_nobody(FAILED, workers))
        raise
    tell_result(transport, text)
    return Probed.of_json(json.loads(text))


def _names(transport: Transport) -> Sequence[str]:
    """The workers' names: those of their hosts, if each has its own."""
    hosts = transport.board.read([f"name/{rank}" for rank in range(transport.size)])
    names = [str(host) for host in hosts]
    if len(set(names)) == len(names) and not any(
        name in ("core", "switch") or name.startswith("tor-") for name in names
    ):
        return names
    return [f"w{rank}" for rank in range(transport.size)]


__all__ = ["Pair", "Probed", "probe", "probe_from_environment", "probe_on"]
