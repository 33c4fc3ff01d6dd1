"""One backward pass: gradients are counted as they come, full buckets leave in order, and in the end all are awaited.

Hooks of gradients run between layers and hold these up, so all that they do is to count; what a bucket needs is done for all of
its gradients at once when the last of them is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from time import monotonic

from weft.sparse.finite import NotFiniteError
from weft.torch.buckets import Bucket
from weft.torch.flights import Flight
from weft.torch.statistics import Tally


class Backward:
    """The buckets of one backward pass. Gradients are named by their bucket and their place in it."""

    def __init__(
        self,
        buckets: Sequence[Bucket],
        launch: Callable[[Bucket], Flight],
        used: Callable[[int], Sequence[int]],
        held: bool = False,
    ) -> None:
        """``used`` says which parameters of a bucket have been used since the last synchronization.

        If buckets are ``held``, none leaves before all gradients are there.
        """
        self._buckets, self._launch, self._used, self._held = buckets, launch, used, held
        self._order: Sequence[int] = range(len(buckets))
        """in which buckets leave"""
        self._flights: list[Flight] = []
        self._missing = [len(bucket.parameters) for bucket in buckets]
        self._full = bytearray(len(buckets))
        """which buckets have all of their gradients in their memory"""
        self._arrived = [bytearray(len(bucket.parameters)) for bucket in buckets]
        self._last_leader = max((bucket.rule.after for bucket in buckets if bucket.rule.after is not None), default=-1)
        self._ended = 0
        """how many buckets have ended of those before which all others have"""
        self._lock = RLock()  # an average that is there at once calls back while it is being launched
        self._error: Exception | None = None

    @property
    def launched(self) -> int:
        """How many buckets have left."""
        return len(self._flights)

    def arrive(self, b: int, k: int) -> bool:
        """A gradient is there: launch what that completes. False if it had come before in this pass.

        All gradients of a bucket come on one thread, that of their device.
        """
        arrived = self._arrived[b]
        if arrived[k]:
            return False
        arrived[k] = 1
        self._missing[b] -= 1
        if not self._missing[b]:
            self._fill(b)
            self._advance()
        return True

    def complete(self, b: int) -> list[int]:
        """Nothing comes any more: fill up a bucket with what there is, or zeros. The places that had no gradient."""
        absent = [k for k, arrived in enumerate(self._arrived[b]) if not arrived]
        if absent:
            self._fill(b)
        return absent

    def _fill(self, b: int) -> None:
        bucket = self._buckets[b]
        for k, arrived in enumerate(self._arrived[b]):
            bucket.take_in(k)
            if arrived:
                bucket.attach(k)
        bucket.raise_flags(self._used(b))
        self._full[b] = 1

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """When each bucket left, and when its average was there, or now."""
        now = monotonic()
        return [(flight.begun, flight.ended or now) for flight in self._flights]

    def wait(self, tally: Tally) -> None:
        """Launch what is left, and return when all averages are there.

        ``NotFiniteError`` is raised when all have ended: nothing has failed, and the next pass may be a better one.
        """
        self._held = False
        begun = monotonic()
        not_finite: NotFiniteError | None = None
        for b in range(len(self._buckets)):
            self._advance()
            if self._error is not None:
                raise self._error
            try:
                self._flights[b].wait()
            except NotFiniteError as error:
                not_finite = not_finite or error
        if not_finite is not None:
            raise not_finite
        ended = monotonic()
        tally.add(
            self.intervals,
            ended - begun,
            sum(flight.bytes_sent for flight in self._flights),
        )

    def _advance(self) -> None:
        """Launch every bucket that may leave, in order, up to the first that may not."""
        with self._lock:
            while self._error is None and not self._held and len(self._flights) < len(self._buckets):
                b = self._order[len(self._flights)]
                while self._ended < len(self._flights) and self._flights[self._ended].ended:
                    self._ended += 1
                if not self._full[b] or self._waits_in_line(b):
                    return
                flight = self._launch(self._buckets[b])
                self._flights.append(flight)
                if b <= self._last_leader:
                    flight.when_done(self._advance_elsewhere)

    def _waits_in_line(self, b: int) -> bool:
        """Whether a bucket comes after one that has not ended."""
        after = self._buckets[b].rule.after
        return after is not None and self._ended <= after

    def _advance_elsewhere(self) -> None:
        """On a thread that has nobody to tell: what goes wrong is raised where the pass is awaited."""
        try:
            self._advance()
        except Exception as error:
            self._error = error
