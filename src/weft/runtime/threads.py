"""Threads that are kept: starting one takes longer than a small message does."""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TypeVar

Result = TypeVar("Result")


class ThreadPool:
    """Runs every piece of work at once, on a thread that is idle or on a new one.

    Work waits for other work here, so it must never queue behind it: there is no limit. Threads are daemons: a wait that
    never ends in some library does not keep the process alive.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._idle: list[SimpleQueue[Callable[[], None]]] = []
        self._made = 0

    def run(self, work: Callable[[], None]) -> None:
        with self._lock:
            if self._idle:
                self._idle.pop().put(work)
                return
            self._made += 1
            name = f"{self._name}-{self._made}"
        Thread(target=self._serve, args=(work,), name=name, daemon=True).start()

    def settled(self, seconds: float) -> bool:
        """Whether all threads are idle, now or within so many seconds."""
        ends = time.monotonic() + seconds
        while len(self._idle) < self._made:
            if time.monotonic() > ends:
                return False
            time.sleep(0.005)
        return True

    def _serve(self, work: Callable[[], None]) -> None:
        inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        while True:
            work()
            del work
            with self._lock:
                self._idle.append(inbox)
            work = inbox.get()


class OutOfTimeError(Exception):
    """Something that may block for ever was given up on."""


def in_time(work: Callable[[], Result], seconds: float) -> Result:
    """What the work returns or raises, or ``OutOfTimeError`` if it takes longer; it is then left to itself."""
    results: list[Result] = []
    errors: list[Exception] = []
    done = Event()

    def attempt() -> None:
        try:
            results.append(work())
        except Exception as error:
            errors.append(error)
        done.set()

    Thread(target=attempt, name="weft-in-time", daemon=True).start()
    if not done.wait(seconds):
        raise OutOfTimeError
    if errors:
        raise errors[0]
    return results[0]
