"""Stopping between two steps: a first signal asks for it, a second Ctrl-C ends the process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass(slots=True)
class StopRequest:
    """The number of the signal that asked, or 0."""

    number: int = 0


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """While this lasts, SIGINT and SIGTERM are requests."""
    request = StopRequest()

    def asked(number: int, _: FrameType | None) -> None:
        request.number = request.number or number
        # Whoever asks again does not want to wait, and a thread inside a library could not run this function.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    before = {kind: signal.signal(kind, asked) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for kind, old in before.items():
            signal.signal(kind, old)
