"""A backward pass that nobody waits for at its end: averages arrive while the next forward pass goes on.

Gradients are reduced in the order in which they come, as always. When all are, they are copied to where they are still missing,
from the last bucket to the first: the forward pass needs the first layers first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from weft.torch.backward import Backward
from weft.torch.buckets import Bucket
from weft.torch.flights import Flight
from weft.torch.statistics import Tally

TOGETHER = 2
"""second halves on their way at once"""


class Later(Backward):
    """The buckets of such a pass."""

    def __init__(
        self,
        buckets: Sequence[Bucket],
        launch_half: Callable[[Bucket, bool], Flight],
        used: Callable[[int], Sequence[int]],
        owe: Callable[[Callable[[], None]], None],
    ) -> None:
        """``owe`` is told what has to be called before anything else is launched."""
        super().__init__(buckets, lambda bucket: launch_half(bucket, False), used)
        self._launch_half = launch_half
        self._last_leader = len(buckets)  # every first half calls back: the last one lets the second halves go
        self._owe = owe
        self._second: dict[int, Flight] = {}
        self._together = TOGETHER
        self._waited = 0.0

    def leave(self) -> None:
        """No gradient comes any more: let everything go, and return.

        All first halves leave now, whatever they come after, and second halves before anything else that this process launches
        from here on: what others launch must meet the same on all ranks.
        """
        self._in_line = False
        self._advance()
        self._owe(self.launch_rest)

    def launch_rest(self) -> None:
        """Launch what is left of this pass, when its first halves have ended."""
        for flight in self._flights:
            flight.wait()
        self._together = len(self._buckets)
        self._go_on()

    def there(self, b: int) -> None:
        """Return when the averages of a bucket and of all after it are there."""
        begun = monotonic()
        for first in range(len(self._buckets)):
            self._go_on()
            self._flights[first].wait()
        for second in reversed(range(b, len(self._buckets))):
            self._go_on()
            self._second[second].wait()
        self._waited += monotonic() - begun

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """Of every bucket from the start of its first half to the end of its second."""
        now = monotonic()
        ends = [self._second[b].ended if b in self._second else 0.0 for b in range(len(self._buckets))]
        return [(flight.begun, end or now) for flight, end in zip(self._flights, ends, strict=True)]

    def count(self, tally: Tally) -> None:
        """All are there."""
        flights = [*self._flights, *self._second.values()]
        spans = [(flight.begun, flight.ended or monotonic()) for flight in flights]
        tally.add(spans, self._waited, sum(flight.bytes_sent for flight in flights))

    def _go_on(self) -> None:
        self._advance()
        if self._error is not None:
            raise self._error

    def _advance(self) -> None:
        with self._lock:
            super()._advance()
            if len(self._flights) < len(self._buckets) or not all(flight.ended for flight in self._flights):
                return
            while self._error is None and len(self._second) < len(self._buckets):
                if sum(not flight.ended for flight in self._second.values()) >= self._together:
                    return
                b = len(self._buckets) - 1 - len(self._second)
                self._second[b] = self._launch_half(self._buckets[b], True)
                self._second[b].when_done(self._advance_elsewhere)
