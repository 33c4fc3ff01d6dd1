"""What the kernel is told about one direction of a cable: its rate, its latency, its queue."""

from __future__ import annotations

from dataclasses import dataclass

from weft.emulation.big_packets import LARGEST

MTU = 1500
_FRAME = MTU + 14
_PACKET_SECONDS = 1e-3
_BURST_SECONDS = 0.5e-3


@dataclass(frozen=True, slots=True)
class Shape:
    """One direction of a cable, as the namespace at its source has it.

    Packets of up to ``packet`` bytes are handled as one, a millisecond of the rate, as Linux hands them to network cards: on real
    hosts it is the card that takes them apart. With half of that, a ring of eight at 400 Mbit/s took twice as much of two cores
    (31% instead of 15%), and left half of its speed to what computes beside it instead of two thirds; at 1 Gbit/s it took 44%
    instead of 28%. Kernels before 6.3 allow no more than 64 KB.
    A link that was idle lets ``burst`` bytes pass at once, half a millisecond more: enough that timers that fire late lose
    nothing (with a burst of a quarter of a millisecond, eight flows on two busy cores lost 14%).
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
        return int(min(max(self.rate * _PACKET_SECONDS, _FRAME), LARGEST))

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
