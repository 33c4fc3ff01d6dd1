"""What a simulation found: how long, which links were busy, and what held it up."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.dependencies import entries
from weft.errors import InputError
from weft.network import Network
from weft.schedule import Schedule
from weft.trace import Span, Trace
from weft.units import format_seconds


def check_fit(schedule: Schedule, network: Network) -> None:
    """Refuse a schedule that is for another number of workers."""
    if schedule.workers != len(network.workers):
        raise InputError(
            f"the schedule is for {schedule.workers} workers, but {network.name!r} has {len(network.workers)}"
        )


def link_loads(schedule: Schedule, network: Network, nbytes: float) -> NDArray[np.float64]:
    """Bytes on every link."""
    check_fit(schedule, network)
    key = schedule.source.astype(np.int64) * schedule.workers + schedule.destination
    pairs, which = np.unique(key, return_inverse=True)
    sizes = np.bincount(which, weights=schedule.transfer_bytes(nbytes), minlength=len(pairs))
    routes = network.routes(pairs // schedule.workers, pairs % schedule.workers)
    carried = np.repeat(sizes, np.diff(routes.start)) * routes.share
    return np.bincount(routes.links, weights=carried, minlength=len(network.links)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Step:
    """One transfer on the critical path: it began when the step before it had ended.

    A step ends when its last byte has arrived or, if the next step waited for nothing but the channel, when it has left.
    """

    transfer: int
    start: float
    end: float
    link: str | None
    """the link that held it back for most of its time; none if latency alone did"""


@dataclass(frozen=True, eq=False)
class Simulation:
    """The result of ``simulate``."""

    schedule: Schedule
    network: Network
    nbytes: float
    seconds: float
    started: NDArray[np.float64]
    """when each transfer was first ready to be sent"""
    sent: NDArray[np.float64]
    """when its last byte had left"""
    ended: NDArray[np.float64]
    """when its last byte had arrived"""
    limiter: NDArray[np.int32] = field(repr=False)
    """the number of the link that held each transfer back for most of its time, or -1"""
    channel: str = "stream"

    @cached_property
    def bytes_on_links(self) -> NDArray[np.float64]:
        """Bytes of the schedule on every link, in the order of ``network.links``."""
        return link_loads(self.schedule, self.network, self.nbytes)

    @cached_property
    def link_bytes(self) -> dict[str, float]:
        """Bytes by link, ``source>destination``, for all links that carry any."""
        return {
            link.name: float(amount)
            for link, amount in zip(self.network.links, self.bytes_on_links, strict=True)
            if amount > 0
        }

    @cached_property
    def utilisation(self) -> dict[str, float]:
        """What part of its bandwidth every used link carried, from 0 to 1."""
        rates = {link.name: link.bandwidth for link in self.network.links}
        return {name: amount / (rates[name] * self.seconds) for name, amount in self.link_bytes.items()}

    @cached_property
    def trace(self) -> Trace:
        """Every transfer as a span of its sender, on a track for each receiver."""
        names = self.network.workers
        sizes = self.schedule.transfer_bytes(self.nbytes)
        spans = []
        for i in np.argsort(self.started, kind="stable").tolist():
            transfer = self.schedule[i]
            source, destination = names[transfer.source], names[transfer.destination]
            label = f"{transfer.op} {transfer.chunk}" + (
                f"-{transfer.chunk + transfer.span - 1}" if transfer.span > 1 else ""
            )
            start, end = float(self.started[i]), float(self.ended[i])
            spans.append(Span(source, f"{source}>{destination}", label, start, end, transfer.op, float(sizes[i])))
        return Trace(f"{self.schedule.name.replace('_', '-')} on {self.network.name}", tuple(spans))

    @cached_property
    def critical_path(self) -> tuple[Step, ...]:
        """The chain of transfers that the end had to wait for, from the start on."""
        if not len(self.schedule):
            return ()
        return tuple(self._step(i, end) for i, end in self._chain())

    def _step(self, i: int, end: float) -> Step:
        link = None if self.limiter[i] < 0 else self.network.links[self.limiter[i]].name
        return Step(i, float(self.started[i]), end, link)

    def _chain(self) -> list[tuple[int, float]]:
        """Transfers and their ends, backwards from the last arrival: before each, whichever it waited for longest."""
        parts = entries(self.schedule)
        transfer_of = np.repeat(np.arange(len(self.schedule)), self.schedule.span)
        before = self._before_in_channel() if self.channel != "shared" else np.full(len(self.schedule), -1)
        free = self.sent if self.channel == "stream" else self.ended
        here = int(np.argmax(self.ended))
        chain = [(here, float(self.ended[here]))]
        while self.started[here] > 0:
            causes = [(float(free[before[here]]), int(before[here]))] if before[here] >= 0 else []
            for entry in range(parts.start[here], parts.start[here + 1]):
                first = parts.write_start[parts.read[entry]]
                writes = transfer_of[parts.writes[first : first + parts.needs[entry]]]
                causes += [(float(self.ended[i]), int(i)) for i in writes]
            if not causes:
                break
            end, here = max(causes)
            chain.append((here, end))
        return chain[::-1]

    def _before_in_channel(self) -> NDArray[np.int64]:
        """The transfer before each on the same channel, or -1."""
        key = self.schedule.source.astype(np.int64) * self.schedule.workers + self.schedule.destination
        order = np.argsort(key, kind="stable")
        before = np.full(len(key), -1, dtype=np.int64)
        same = key[order[1:]] == key[order[:-1]]
        before[order[1:][same]] = order[:-1][same]
        return before

    @cached_property
    def held_up_by(self) -> dict[str, float]:
        """What the critical path waited for, as parts of the whole time: links by name, and latency and other waits."""
        parts: dict[str, float] = defaultdict(float)
        path = self.critical_path
        covered = 0.0
        for step in path:
            sending = max(0.0, min(step.end, float(self.sent[step.transfer])) - step.start)
            if self.channel != "stream":
                sending = max(0.0, sending - self._latency(step.transfer))
            covered += step.end - step.start
            parts["latency"] += step.end - step.start - sending
            parts[step.link or "latency"] += sending
        parts["waiting"] = max(0.0, self.seconds - covered)
        whole = self.seconds or 1.0
        shares = {name: time / whole for name, time in parts.items() if time > 1e-12 * whole}
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def _latency(self, i: int) -> float:
        source, destination = int(self.schedule.source[i]), int(self.schedule.destination[i])
        return float(self.network.routes([source], [destination]).latency[0])

    @property
    def bottleneck(self) -> str:
        """The critical path in words."""
        if not len(self.schedule):
            return "nothing to send: one worker takes part"
        causes = [(name, share) for name, share in self.held_up_by.items() if share >= 0.005]
        parts = [f"{_described(name, self.network)}, {share:.0%} of the time" for name, share in causes]
        return (
            f"{'; '.join(parts[:3])} ({len(self.critical_path)} transfers in a chain, {format_seconds(self.seconds)})"
        )


def _described(name: str, network: Network) -> str:
    """A link with what it is: a worker's own link, or the uplink or downlink of a region."""
    if ">" not in name:
        return {"latency": "latency", "waiting": "waiting for paused workers or adders"}[name]
    source, destination = name.split(">", 1)
    workers = set(network.workers)
    if source in workers and destination in workers:
        return f"direct link {name}"
    if source in workers or destination in workers:
        return f"{'sending' if source in workers else 'receiving'} link {name} of a worker"
    behind = {link.destination if link.source == switch else link.source for link in network.links
              for switch in (source, destination) if switch in (link.source, link.destination)} & workers  # fmt: skip
    from_rack = any(link.source == source and link.destination in workers for link in network.links)
    kind = "uplink" if from_rack else "downlink" if behind else "switch link"
    for region in network.regions or ():
        if behind and behind <= set(region.workers):
            return f"{kind} {name} of {region.name}"
    return f"{kind} {name}"
