"""Communicator: one rank's end of a transport, and all that is kept between executions.

All ranks launch the same executions in the same order; several may be in flight. Each has a tag of its own, so they do not
mix; where a transport does not keep tags apart (NCCL), the next one starts when the last has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

import torch

from weft.errors import AgreementError, ExecutionError, InputError
from weft.runtime.agreement import agree, shared, subject_key
from weft.runtime.contribution import Contribution, ReduceOp, check
from weft.runtime.deadline import Deadlines
from weft.runtime.execution import Execution, StoppedError
from weft.runtime.failure import ALARM, PATIENCE, Failure
from weft.runtime.program import Program, program_of
from weft.runtime.reports import report_of
from weft.runtime.scratch import Scratch
from weft.runtime.threads import OutOfTimeError, ThreadPool, in_time
from weft.runtime.transport import Transport, TransportError
from weft.runtime.watch import Watch
from weft.schedule import Schedule

if TYPE_CHECKING:
    from weft.planning import Plan

TAGS = 1 << 16
_pool = ThreadPool("weft-channel")


class Running:
    """An execution in flight."""

    def __init__(self, communicator: Communicator, execution: Execution, number: int, subject: str) -> None:
        self.execution, self.number, self.subject = execution, number, subject
        self._communicator = communicator

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self.execution.done.is_set()

    def wait(self) -> None:
        """Return when the tensor holds the result; raise ``PeerError`` if that cannot be, within the deadline."""
        execution = self.execution
        if not execution.done.wait(max(0.0, execution.left()) + 0.1):
            self._communicator.fail(f"not finished after {monotonic() - execution.begun:.1f} s")
        if not execution.succeeded:
            raise self._communicator.error()


class Communicator:
    """Executes schedules on a transport."""

    def __init__(self, transport: Transport, deadlines: Deadlines | None = None) -> None:
        self.transport = transport
        self.deadlines = Deadlines() if deadlines is None else deadlines
        self.scratch = Scratch()
        self._lock = Lock()
        self._launched = self._texts = 0
        self._agreed: set[str] = set()
        self._agreeing: tuple[int, str] | None = None
        self._in_flight: dict[int, Running] = {}
        self._failure: Failure | None = None
        self._patience = PATIENCE
        self._watch: Watch | None = None
        _living.add(self)

    def launch(
        self,
        what: Plan | Schedule,
        tensor: torch.Tensor,
        op: ReduceOp = "average",
        weights: Sequence[float] | None = None,
        timeout: float | None = None,
        here: bool = False,
    ) -> Running:
        """Start to reduce a tensor in place. With ``here`` the calling thread helps, and is held until it cannot any more.

        ``timeout`` overrides the deadline that is made from measured times.
        """
        schedule = what if isinstance(what, Schedule) else what.schedule
        self._check(tensor, op, weights, schedule, timeout)
        program = program_of(schedule, self.transport.rank, tensor.numel())
        key = (schedule.digest, tensor.nbytes)
        predicted = 0.0 if isinstance(what, Schedule) else what.seconds * max(1.0, tensor.nbytes / what.nbytes)
        allowed = self.deadlines.allowed(key, predicted) if timeout is None else timeout
        share = None if weights is None else tuple(map(float, weights))
        subject = subject_of(schedule, tensor, op, share)
        number = self._joined(subject, allowed)
        if not self.transport.keeps_tags_apart:
            for earlier in list(self._in_flight.values()):
                earlier.wait()
        contribution = Contribution(tensor, program, op, share)
        running = self._started(program, contribution, number, subject, allowed)
        running.execution.run(_pool, here)
        return running

    def from_rank_0(self, make: Callable[[], str], timeout: float) -> str:
        """The text that rank 0 makes, on every rank; if it cannot, all raise. Called by all ranks in the same order."""
        if self._failure is not None:
            raise self.error()
        self._texts += 1
        try:
            return in_time(lambda: shared(self.transport, self._texts, make, timeout), timeout + 1.0)
        except (OutOfTimeError, TransportError):
            self.fail(f"nothing from rank 0 in {timeout:.3g} s")
            raise self.error() from None

    def _check(
        self, tensor: torch.Tensor, op: str, weights: Sequence[float] | None, schedule: Schedule, timeout: float | None
    ) -> None:
        if self._failure is not None:
            raise self.error()
        check(tensor, op, weights, schedule)
        if schedule.workers != self.transport.size:
            raise InputError(f"a schedule for {schedule.workers} ranks cannot run on {self.transport.size}: plan again")
        if timeout is not None and not timeout > 0:
            raise InputError(f"a timeout of {timeout} s is not possible: it must be more than 0")

    def _joined(self, subject: str, allowed: float) -> int:
        """The number of the next execution, when all ranks agree on it."""
        with self._lock:
            self._launched += 1
            number = self._launched
            self._patience = min(PATIENCE, allowed / 2)  # so that the others are heard within the deadline
            if self._watch is None and self.transport.size > 1:
                self._watch = Watch(self._look, self.transport.size)
        if subject in self._agreed or self.transport.size == 1:
            return number
        self._agreeing = (number, subject)
        try:
            seconds = self._alarm(allowed)
            in_time(lambda: agree(self.transport, number, subject, seconds, self._has_failed), seconds + 0.1)
        except AgreementError:
            raise
        except Exception as problem:
            late = isinstance(problem, TransportError | OutOfTimeError)
            self.fail("not all ranks have joined in time" if late else f"the ranks cannot agree: {problem}")
        finally:
            self._agreeing = None
        if self._failure is not None:
            raise self.error()
        self._agreed.add(subject)
        return number

    def _started(
        self, program: Program, contribution: Contribution, number: int, subject: str, allowed: float
    ) -> Running:
        """An execution that is known to be in flight."""
        key = (program.schedule.digest, contribution.flat.nbytes)

        def ended(execution: Execution, error: Exception | None) -> None:
            if error is None:
                contribution.settle()
                self.deadlines.took(key, monotonic() - execution.begun)
            elif not isinstance(error, StoppedError):
                closed = [error.peer] if isinstance(error, TransportError) and not error.late else []
                self.fail(_cause(error, execution), closed)
            with self._lock:
                self._in_flight.pop(number, None)

        execution = Execution(
            program, contribution.flat, self.transport, number % TAGS, self.scratch, self._alarm(allowed), ended
        )
        running = Running(self, execution, number, subject)
        with self._lock:
            self._in_flight[number] = running
        return running

    def _has_failed(self) -> bool:
        return self._failure is not None

    def _alarm(self, allowed: float) -> float:
        """When to sound the alarm, so that everybody has raised when the deadline comes."""
        return 0.97 * allowed - self._patience

    def fail(self, cause: str, lost: Sequence[int] = ()) -> None:
        """Give up on the transport: tell the others, and end everything that is in flight. Once only."""
        with self._lock:
            if self._failure is not None:
                return
            flying = sorted(self._in_flight.items())
            running = flying[0][1] if flying else None
            number, subject = (running.number, running.subject) if running else self._agreeing or (None, "nothing")
            execution = running.execution if running else None
            report = report_of(self.transport.rank, self._launched, number, subject, execution, lost)
            self._failure = Failure(self.transport, report, cause, self._patience)
        self._failure.announce()
        for _, other in flying:
            other.execution.stop()

    def error(self) -> ExecutionError:
        """Why the transport is lost, as far as all ranks that answer know."""
        assert self._failure is not None
        return self._failure.error()

    def close(self) -> None:
        """Stop watching; what is still in flight fails."""
        if self._in_flight:
            self.fail(f"rank {self.transport.rank} leaves")
        if self._watch is not None:
            self._watch.end()

    def _look(self) -> bool:
        """Has another rank failed, or has an execution that nobody waits for run out of time? False ends the watch."""
        if self._failure is not None:
            return False
        late = [running for running in list(self._in_flight.values()) if running.execution.left() < -0.5]
        if late:
            self.fail(f"not finished after {late[0].execution.seconds:.1f} s")
            return False
        flying = list(self._in_flight.values())
        try:
            alarm, *subjects = self.transport.board.read([ALARM, *(subject_key(running.number) for running in flying)])
        except Exception:
            return False
        if alarm is not None:
            self.fail(f"rank {alarm} has reported a failure")
        elif any(text not in (None, running.subject) for text, running in zip(subjects, flying, strict=True)):
            self.fail("another rank is about to execute something else")
        if self._failure is not None:
            self.error()  # listen now, not when somebody asks here: the others may have left by then
        return self._failure is None


def _cause(error: Exception, execution: Execution) -> str:
    if isinstance(error, TransportError):
        after = f"after {monotonic() - execution.begun:.1f} s"
        if error.late:
            return f"no answer from rank {error.peer} {after}"
        return f"{error.reason} by rank {error.peer} {after}"
    return f"{type(error).__name__}: {error}"


def subject_of(schedule: Schedule, tensor: torch.Tensor, op: str, weights: tuple[float, ...] | None) -> str:
    """All that the ranks must agree on, in words."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    shares = "" if weights is None else f", weights {list(weights)}"
    return f"{op} of {tensor.numel()} {dtype} by {schedule.name} {schedule.digest}{shares}"


_living: weakref.WeakSet[Communicator] = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    """Leave nobody waiting inside a library while the interpreter goes away."""
    for communicator in list(_living):
        with contextlib.suppress(Exception):
            communicator.close()
    _pool.settled(1.0)
