"""Backward passes that nobody waits for at their end: averages arrive while the next forward pass goes on.

That needs the first layers first, whose gradients come last. So about half of the bytes leave in the order in which gradients
come, which keeps the network busy meanwhile, and the rest when all are there, from the last bucket to the first. Where schedules
can be cut in two, all gradients are reduced in the order in which they come, and when all are, copied to where they are still
missing, from the last bucket to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from time import monotonic

from weft.torch.backward import Backward
from weft.torch.buckets import Bucket
from weft.torch.flights import Flight
from weft.torch.statistics import Tally

AT_FIRST = 0.5
"""the part of the bytes that leaves in the order of the backward pass"""
TOGETHER = 2
"""second halves on their way at once"""

Used = Callable[[int], Sequence[int]]


class Later(Backward):
    """The buckets of such a pass, each averaged as a whole."""

    def __init__(self, buckets: Sequence[Bucket], launch: Callable[[Bucket], Flight], used: Used) -> None:
        super().__init__(buckets, launch, used)
        count, ends = len(buckets), list(accumulate(bucket.flat.nbytes for bucket in buckets))
        first = max(1, sum(end <= AT_FIRST * ends[-1] for end in ends))
        self._order = [*range(first), *reversed(range(first, count))]
        self._left = False
        self._waited = 0.0

    def leave(self) -> None:
        """No gradient comes any more: let everything go, whatever it comes after, and return.

        What others launch from here on must meet the same on all ranks, so nothing of this is left to chance.
        """
        self._left = True
        self._advance()

    def there(self, b: int) -> None:
        """Return when the averages of a bucket are there."""
        begun = monotonic()
        self._go_on()
        self._flights[self._order.index(b)].wait()
        self._waited += monotonic() - begun

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """By bucket."""
        flown = dict(zip(self._order, super().intervals, strict=True))
        return [flown[b] for b in range(len(self._buckets))]

    def count(self, tally: Tally) -> None:
        """All are there."""
        self._count(tally, self._flights)

    def _count(self, tally: Tally, flights: Sequence[Flight]) -> None:
        spans = [(flight.begun, flight.ended or monotonic()) for flight in flights]
        tally.add(spans, self._waited, sum(flight.bytes_sent for flight in flights))

    def _go_on(self) -> None:
        self._advance()
        if self._error is not None:
            raise self._error

    def _waits_in_line(self, b: int) -> bool:
        return not self._left and super()._waits_in_line(b)


class LaterInHalves(Later):
    """The same, reduced in the order of the backward pass and copied in that of the forward pass."""

    def __init__(
        self,
        buckets: Sequence[Bucket],
        launch_half: Callable[[Bucket, bool], Flight],
        used: Used,
        owe: Callable[[Callable[[], None]], None],
    ) -> None:
        """``owe`` is told what has to be called before anything else is launched."""
        super().__init__(buckets, lambda bucket: launch_half(bucket, False), used)
        self._order = range(len(buckets))
        self._launch_half, self._owe = launch_half, owe
        self._last_leader = len(buckets)  # every first half calls back: the last one lets the second halves go
        self._second: dict[int, Flight] = {}
        self._together = TOGETHER

    def leave(self) -> None:
        super().leave()
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
        self._count(tally, [*self._flights, *self._second.values()])

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
