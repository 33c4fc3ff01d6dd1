"""What is to happen, and when."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable

Action = Callable[[], None]


class Agenda:
    """Actions at times of the monotonic clock; those of the same time happen in the order in which they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Action]] = []
        self._added = 0

    def add(self, at: float, action: Action) -> None:
        heapq.heappush(self._heap, (at, self._added, action))
        self._added += 1

    @property
    def seconds_left(self) -> float | None:
        """Until the next action; none where nothing is to happen."""
        return max(0.0, self._heap[0][0] - time.monotonic()) if self._heap else None

    def act(self) -> None:
        """Do everything that is due."""
        while self._heap and self._heap[0][0] <= time.monotonic():
            heapq.heappop(self._heap)[2]()
