"""Ending: what everything that runs for a while has in common: it ends once, well or not, and tells whoever waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock

from weft.runtime.deadline import Term


class StoppedError(Exception):
    """The execution was given up because of a failure elsewhere."""


class Ending:
    """``done`` is set when it has ended. ``on_end`` is told of the error, if there was one, and says whether all is well."""

    def __init__(self, term: Term, on_end: Callable[[Exception | None], bool]) -> None:
        self.term = term
        self.begun = time.monotonic()
        self.done = Event()
        self.ended = 0.0
        """when; 0 until then"""
        self.succeeded = False
        self._on_end = on_end
        self._lock = Lock()
        self._stopped = False
        self._afterwards: list[Callable[[], None]] = []

    def stop(self) -> None:
        """Give up: somebody else's failure is the reason."""
        self._end(StoppedError())

    def when_done(self, call: Callable[[], None]) -> None:
        """Call this when it has ended, on the thread that ended it; at once if it has. It must not raise."""
        with self._lock:
            if not self.done.is_set():
                self._afterwards.append(call)
                return
        call()

    def _end(self, error: Exception | None) -> None:
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self._wake()
        try:
            self.succeeded = self._on_end(error)
        finally:
            with self._lock:
                self.ended = time.monotonic()
                self.done.set()
                calls, self._afterwards = self._afterwards, []
        for call in calls:
            call()

    def _wake(self) -> None:
        """Under the lock, at the end: wake threads that wait for something that will not come."""
