"""Sums: gradient and residual are added up where somebody is about to look, and the rest while messages are on their way.

Adding up reads and writes more memory than all the rest of a call does. Spar-Reduce-Scatter sends half of its blocks or more in
its first round, and needs each of the others only when it is about to send it.
"""

from __future__ import annotations

from weft.sparse.pairs import Values
from weft.sparse.watch import Watch
from weft.sparse.wire import Span


class Sums:
    """``out`` becomes gradient plus residual, stretch by stretch. ``wrong`` is the first place that is infinite or NaN, or -1.

    A stretch with such a number is zero: a worker that has one takes part with nothing there, and a note.
    """

    def __init__(self, watch: Watch, gradient: Values, residual: Values, out: Values) -> None:
        self._watch, self._gradient, self._residual, self._out = watch, gradient, residual, out
        self._open: list[Span] = [(0, len(out))]
        self.wrong = -1

    def have(self, span: Span) -> None:
        """Add up what is open of a span."""
        still_open: list[Span] = []
        for start, stop in self._open:
            low, high = max(start, span[0]), min(stop, span[1])
            if low >= high:
                still_open.append((start, stop))
                continue
            self._add(low, high)
            still_open += [part for part in ((start, low), (high, stop)) if part[0] < part[1]]
        self._open = still_open

    def _add(self, start: int, stop: int) -> None:
        wrong = self._watch.sum_up(self._gradient, self._residual, self._out, (start, stop))
        if wrong >= 0:
            self._watch.forget()
            self._out[start:stop] = 0
            self.wrong = wrong if self.wrong < 0 else min(wrong, self.wrong)
