"""What the kernel is told about one direction of a cable: its rate, its latency, its queue."""

from __future__ import annotations

from dataclasses import dataclass

MTU = 1500
_FRAME = MTU + 14
_LARGEST_PACKET = 65_536
_PACKET_SECONDS = 0.25e-3
_BURST_SECONDS = 0.5e-3


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction of a cable, as the namespace at its source has it.

    Packets of up to ``packet`` bytes are handled as one, as network cards do; a link is idle for at most ``burst`` bytes
    before it has lost time for good. Both are small, so that a message of a few kilobytes is not faster than the link,
    and large enough that timers that fire late lose nothing.
    """

    link: int
    device: str
    rate: float
    """bytes per second"""
    latency: float
    queue: int
    """bytes that wait before packets are dropped"""

    @property
    def packet(self) -> int:
        return int(min(max(self.rate * _PACKET_SECONDS, _FRAME), _LARGEST_PACKET))

    @property
    def burst(self) -> int:
        return int(self.packet + max(self.rate * _BURST_SECONDS, _FRAME))

    def lines(self, factor: float = 1.0, *, delays: bool) -> list[str]:
        """Commands for ``tc -batch``: this link at ``factor`` of its rate, where 0 drops everything."""
        if factor <= 0:
            return [f"qdisc replace dev {self.device} root handle 3: blackhole"]
        bits = max(8, round(self.rate * factor * 8))
        bucket = f"tbf rate {bits}bit burst {self.burst} limit {self.queue + self.burst}"
        if not delays or self.latency <= 0:
            return [f"qdisc replace dev {self.device} root handle 1: {bucket}"]
        # Everything on its way waits in netem, so its limit must never be the one that is met.
        return [
            f"qdisc replace dev {self.device} root handle 2: netem delay {self.latency * 1e6:.3f}us limit 1000000",
            f"qdisc replace dev {self.device} parent 2:1 handle 1: {bucket}",
        ]
