"""How long an execution may take before it is a failure: a multiple of what it was measured to take.

The slowest of the recent executions already has in it how late ranks usually are. An execution that takes longer is a reason
to call the roll (``roll_call.py``): if a rank is silent, or all have joined and still nothing moves, it has failed; a
rank that is alive and has not joined may be late for a while. Where nothing was measured yet, that nothing moves must be
borne for long, but who is silent is asked early. An explicit timeout is a timeout, without questions.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field

Key = tuple[str, int]
"""a schedule's digest and the tensor's bytes"""
REMEMBERED = 100


PATIENCE = 2.0
"""Seconds in which other ranks must answer a question."""


@dataclass(slots=True)
class Term:
    """How long one execution may take: no longer than ``limit``, and the roll is called after every ``period``.

    Before ``quiet`` it is no failure that all have joined and nothing moves.
    """

    patience: float
    """how long answers are awaited"""
    limit: float
    period: float = math.inf
    quiet: float = 0.0
    begun: float = field(default_factory=time.monotonic)
    calls: int = 0

    def left(self) -> float:
        """The seconds until the limit."""
        return self.begun + self.limit - time.monotonic()

    def passed(self) -> float:
        return time.monotonic() - self.begun

    def is_due(self) -> bool:
        """Whether the roll is to be called again."""
        return self.passed() > self.period * (self.calls + 1)


@dataclass(slots=True)
class Deadlines:
    """How long executions may take, in seconds."""

    factor: float = 20.0
    """how much slower than lately seen, or than predicted, an execution may be"""
    floor: float = 10.0
    """what is allowed however fast it was"""
    first: float = 600.0
    """what is allowed where nothing was measured yet: ranks start at different times"""
    late: float = 1800.0
    """how long the others wait for a rank that is alive"""
    asked: float = 30.0
    """when the roll is called where nothing was measured yet: answering costs nothing"""
    _seen: dict[Key, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=REMEMBERED)))

    def allowed(self, key: Key, predicted: float = 0.0) -> float:
        """The seconds that the next execution may take."""
        seen = self._seen.get(key)
        if not seen:
            return max(self.first, self.factor * predicted)
        return max(self.floor, self.factor * max(seen))

    def term(self, key: Key, predicted: float, timeout: float | None) -> Term:
        """The time of one execution. Everything that is said after a failure is said within it, so the alarm comes earlier."""
        if timeout is not None:
            patience = min(PATIENCE, timeout / 2)
            return Term(patience, 0.97 * timeout - patience)
        allowed = self.allowed(key, predicted)
        seen = bool(self._seen.get(key))
        asked = allowed if seen else min(allowed, self.asked)
        patience = min(PATIENCE, asked / 4) if seen else asked / 8  # at first a rank may be busy importing or compiling
        period, quiet = 0.97 * asked - 2 * patience, 0.97 * allowed - 2 * patience
        return Term(patience, max(allowed, self.late) - patience, period, quiet)

    def took(self, key: Key, seconds: float) -> None:
        """Remember a measured time."""
        self._seen[key].append(seconds)
