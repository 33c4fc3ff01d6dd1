"""What synchronization has cost since somebody last asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class StepStatistics:
    """Of the synchronized backward passes since the last time: sums, on this rank."""

    communication_seconds: float
    """the time in which any bucket was in flight"""
    exposed_seconds: float
    """the time in which the end of a backward pass had nothing to do but wait for them"""
    bytes_sent: int
    """by this rank; of the backend's all-reduce, what a ring sends"""
    passes: int


class Tally:
    """Adds up, and gives away."""

    def __init__(self) -> None:
        self._communication = self._exposed = 0.0
        self._bytes = self._passes = 0

    def add(self, intervals: Iterable[Interval], exposed: float, nbytes: int, passes: int = 1) -> None:
        """Backward passes: when buckets were in flight, how long the end waited, and the bytes."""
        self._communication += covered(intervals)
        self._exposed += exposed
        self._bytes += nbytes
        self._passes += passes

    def take(self) -> StepStatistics:
        taken = StepStatistics(self._communication, self._exposed, self._bytes, self._passes)
        self.__init__()  # type: ignore[misc]
        return taken


def covered(intervals: Iterable[Interval]) -> float:
    """How much time the intervals cover together, overlaps counted once."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
