"""The watch: a thread that looks for other ranks' alarms and questions, and for executions that take too long.

It is why a rank that is alive but busy elsewhere can say so, and why a failure is known everywhere within a moment.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import Event, Thread

SHORTEST, LONGEST = 0.2, 0.5
"""Seconds between two looks. Answers are awaited for several of them."""
LOOKS_PER_SECOND = 500
"""What a board must bear: with more ranks, each looks less often."""


class Watch:
    """Calls ``look`` of an object now and then until it returns False, or the object is gone."""

    def __init__(self, look: Callable[[], bool], ranks: int) -> None:
        self._stop = Event()
        interval = min(LONGEST, max(SHORTEST, ranks / LOOKS_PER_SECOND))
        self._thread = Thread(
            target=_watching, args=(weakref.WeakMethod(look), self._stop, interval), name="weft-watch", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Stop looking. A look that hangs is left behind."""
        self._stop.set()
        self._thread.join(1.0)


def _watching(look: weakref.WeakMethod[Callable[[], bool]], stop: Event, interval: float) -> None:
    while not stop.wait(interval):
        now = look()
        if now is None or not now():
            return
        del now
