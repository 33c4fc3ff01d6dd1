"""How long an execution may take before it is a failure: a multiple of what it was measured to take.

The slowest of the recent executions already has in it how late ranks usually are. The floor is for what no measurement
shows beforehand, such as a rank that writes a checkpoint; the first execution of a program has its prediction only.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

Key = tuple[str, int]
"""a schedule's digest and the tensor's bytes"""
REMEMBERED = 100


@dataclass(slots=True)
class Deadlines:
    """``floor`` and ``first`` are seconds; ``factor`` is how much slower than ever seen an execution may be."""

    floor: float = 30.0
    first: float = 120.0
    factor: float = 20.0
    _seen: dict[Key, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=REMEMBERED)))

    def allowed(self, key: Key, predicted: float = 0.0) -> float:
        """The seconds that the next execution may take."""
        seen = self._seen.get(key)
        if not seen:
            return max(self.first, self.factor * predicted)
        return max(self.floor, self.factor * max(seen))

    def took(self, key: Key, seconds: float) -> None:
        """Remember a measured time."""
        self._seen[key].append(seconds)
