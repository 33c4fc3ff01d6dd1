"""The backend's own operations, in line with executions of schedules.

The backend itself waits for half an hour, and then does not say for whom. In line, its operations are numbered and agreed upon,
their deadlines come from measured times, and when one fails all ranks together find out who is to blame.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import torch

from weft.runtime.communicator import Communicator
from weft.runtime.deadline import Term
from weft.runtime.ending import Ending
from weft.runtime.execution import Execution
from weft.runtime.running import Running

_GLANCE = timedelta(seconds=1)
"""Between two looks of a waiting thread at whether all was given up meanwhile."""


class BackendOperation(Ending):
    """One at work. Of its messages nothing is known."""

    channels: tuple[()] = ()

    def __init__(self, term: Term, on_end: Callable[[Exception | None], bool]) -> None:
        super().__init__(term, on_end)
        self.posted_sends: dict[int, int] = {}
        self._work: Any = None

    def run(self, start: Callable[[], Any]) -> None:
        """``start`` returns the backend's handle of what it has begun."""
        try:
            self._work = start()
            self._work.get_future().add_done_callback(self._landed)
        except RuntimeError as error:
            self._end(error)

    def run_here(self, start: Callable[[], Any]) -> None:
        """The same, and the calling thread waits for the end."""
        try:
            work = start()
            while not _has_landed(work) and not self.done.is_set():
                pass
        except RuntimeError as error:
            self._end(error)
        else:
            self._end(None)

    def _landed(self, future: Any) -> None:
        """Called by the backend, whose work is not over before this returns: do not wait for it here."""
        try:
            future.value()
        except RuntimeError as error:
            self._end(error)
        else:
            self._end(None)

    def line_up(self) -> None:
        """Let what follows on a device's stream wait for the result."""
        if self._work is not None:
            self._work.wait()


def _has_landed(work: Any) -> bool:
    """Wait for a while; False where that was not long enough, which does the work no harm."""
    try:
        work.wait(_GLANCE)
    except RuntimeError:
        if not work.is_completed():
            return False
        work.wait()  # raises its own error: what was raised above may have been the glance's, ended a moment too early
    return True


def launch_on_backend(us: Communicator, subject: str, start: Callable[[], Any], timeout: float | None) -> Running:
    """Start an operation of the backend; all ranks do so in the same order. ``subject`` is what they agree on."""
    running = _entered(us, subject, timeout)
    operation_of(running).run(start)
    return running


def finish_on_backend(us: Communicator, subject: str, start: Callable[[], Any], timeout: float | None) -> None:
    """The same for CPU tensors, to its end. No other thread has to tell this one of it, which a small operation would feel."""
    running = _entered(us, subject, timeout)
    operation_of(running).run_here(start)
    running.wait()


def _entered(us: Communicator, subject: str, timeout: float | None) -> Running:
    def made(number: int, term: Term, ended: Callable[[Exception | None], bool]) -> Running:
        return Running(us, cast(Execution, BackendOperation(term, ended)), number, subject)

    return us.enter(subject, timeout, made, at_once=True)


def operation_of(running: Running) -> BackendOperation:
    return cast(BackendOperation, running.execution)


def wait_for_backend(running: Running, device: torch.device) -> None:
    """Return when it is done; raise ``PeerError`` if that cannot be. May be called by what is told of the end."""
    running.wait()
    if device.type != "cpu":  # on a CPU all is there, and whoever is told of the end would wait for himself
        operation_of(running).line_up()
