"""Communicator: one rank's end of a transport, and all that is kept between executions.

All ranks launch the same executions in the same order; several may be in flight. Each has a tag of its own, so they do not
mix; where a transport does not keep tags apart (NCCL), the next one starts when the last has ended.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import logging
import math
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING

import torch

from weft.errors import AgreementError, ExecutionError, InputError
from weft.runtime.agreement import agree, shared, subject_key
from weft.runtime.contribution import Contribution, ReduceOp, check
from weft.runtime.deadline import PATIENCE, Deadlines, Term
from weft.runtime.ending import StoppedError
from weft.runtime.execution import Execution
from weft.runtime.failure import ALARM, Failure
from weft.runtime.halves import Half
from weft.runtime.program import Program, program_of
from weft.runtime.reports import report_of
from weft.runtime.roll_call import ROLL, RollCall
from weft.runtime.running import Running, cause_of, subject_of
from weft.runtime.scratch import Scratch
from weft.runtime.threads import OutOfTimeError, ThreadPool, in_time
from weft.runtime.transport import Transport, TransportError
from weft.runtime.vigil import LEFT_OUT, Vigil
from weft.runtime.watch import Watch
from weft.schedule import Schedule

if TYPE_CHECKING:
    from weft.planning import Plan
    from weft.runtime.pacing import Pacing

TAGS = 1 << 16
_MOMENT = 0.01
_log = logging.getLogger("weft")
pool = ThreadPool("weft-channel")


class Communicator:
    """Executes schedules on a transport, which carries tensors of ``device``."""

    def __init__(
        self, transport: Transport, deadlines: Deadlines | None = None, device: torch.device | str = "cpu"
    ) -> None:
        self.transport = transport
        self.device = torch.device(device)
        self.deadlines = Deadlines() if deadlines is None else deadlines
        self.scratch = Scratch()
        self._lock = Lock()
        self._launched = self._texts = 0
        self._agreed: set[str] = set()
        self._agreeing: tuple[int, str] | None = None
        self._in_flight: dict[int, Running] = {}
        self._owed: list[Callable[[], None]] = []
        self._failure: Failure | None = None
        self._terms: dict[int, Term] = {}
        """of all executions that were launched and have not ended"""
        self._term = Term(PATIENCE, 0.0)
        self._roll_call = RollCall(transport, lambda: self._launched)
        self._board_answers = True
        self._watch: Watch | None = None
        self._all_attend = False
        self._vigils: set[Vigil] = set()
        self._asked = 0
        self.pacing: Pacing | None = None
        """for plans that are faster if their connections hold back; set by whoever has tried that"""
        _living.add(self)

    def launch(
        self,
        what: Plan | Schedule | Half,
        tensor: torch.Tensor,
        op: ReduceOp = "average",
        weights: Sequence[float] | None = None,
        timeout: float | None = None,
        here: bool = False,
        wire: torch.dtype | None = None,
        owed: bool = False,
    ) -> Running:
        """Start to reduce a tensor in place. With ``here`` the calling thread helps, and is held until it cannot any more.

        ``timeout`` overrides the deadline that is made from measured times. With ``wire``, such as bfloat16, messages are rounded
        to that type when they are sent, and sums are made in the tensor's own, or in float32 where that is no larger.
        ``owed`` is for what ``owe`` has announced.
        """
        if not owed:
            self._pay()
        schedule = what if isinstance(what, Schedule) else what.schedule
        self._check(tensor, op, weights, schedule, timeout)
        proved = what if isinstance(what, Half) else schedule
        program = program_of(proved, self.transport.rank, tensor.numel())
        key = (schedule.digest, tensor.nbytes)
        predicted = 0.0
        if not isinstance(what, Schedule | Half):
            predicted = what.seconds * max(1.0, tensor.nbytes / what.nbytes)
        term = self.deadlines.term(key, predicted, timeout)
        share = None if weights is None else tuple(map(float, weights))
        subject = subject_of(schedule, tensor, op, share) + ("" if wire is None else f", on the wire as {wire}")
        number = self._joined(subject, term)
        self._await_turn()
        contribution = Contribution(tensor, program, op, share, wire)
        running = self._started(program, contribution, number, subject, term, wire)
        running.execution.run(pool, here)
        return running

    def enter(
        self,
        subject: str,
        timeout: float | None,
        make: Callable[[int, Term, Callable[[Exception | None], bool]], Running],
        at_once: bool = False,
    ) -> Running:
        """Something else than a schedule, in line with them: numbered, agreed upon, with a deadline, and failing as they do.

        ``make`` gets its number and its time, and what it must call when it has ended: with the error, if there was one; that
        says whether all is well. With ``at_once`` it has no messages that others could be taken for.
        """
        self._pay()
        if self._failure is not None:
            raise self.error()
        key = (subject, 0)
        term = self.deadlines.term(key, 0.0, timeout)
        number = self._joined(subject, term)
        if not at_once:
            self._await_turn()

        def ended(error: Exception | None) -> bool:
            if error is None:
                self.deadlines.took(key, term.passed())
            return self._left(number, term, error)

        running = make(number, term, ended)
        with self._lock:
            self._in_flight[number] = running
        return running

    def owe(self, launch: Callable[[], None]) -> None:
        """Something is going to be launched when others have ended, which ranks see at different times: before whatever else is
        launched after this call, ``launch`` is called, so that the order is the same on all ranks."""
        self._owed.append(launch)

    def _pay(self) -> None:
        while self._owed:
            self._owed.pop(0)()

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

    def attend(self) -> None:
        """Answer roll calls from now on; all ranks do so, before the first of them launches anything."""
        self._all_attend = True
        with self._lock:
            self._begin_to_watch()

    @contextlib.contextmanager
    def vigil(
        self, what: str, peer: int | None = None, timeout: float | None = None, endless: bool = False
    ) -> Iterator[Term]:
        """Inside, something else than an execution is waited for (``vigil.py``): no longer than the limit, unless ``endless``.

        If it fails, the transport is given up, which ends every wait for its messages.
        """
        key = (what, -1 if peer is None else peer)
        term = self.deadlines.term(key, 0.0, timeout)
        if endless:
            term.limit = math.inf
        vigil = Vigil(what, peer, term)
        with self._lock:
            self._begin_to_watch()
            self._vigils.add(vigil)
        try:
            yield term
        finally:
            with self._lock:
                self._vigils.discard(vigil)
        self.deadlines.took(key, term.passed())

    def leave_out(self, rank: int) -> None:
        """Go on without a rank that is gone: its silence is no failure, as long as nothing is executed."""
        with contextlib.suppress(OutOfTimeError, Exception):
            in_time(lambda: self.transport.board.post(f"{LEFT_OUT}/{rank}", ""), PATIENCE)

    def has_failed(self, look: bool = False) -> bool:
        """Whether the transport was given up; with ``look``, also by others a moment ago: who does so says it first."""
        if look:
            with contextlib.suppress(OutOfTimeError, Exception):
                in_time(self._read_board, PATIENCE)
        return self._failure is not None

    def _begin_to_watch(self) -> None:
        if self._watch is None and self.transport.size > 1:
            self._watch = Watch(self._look, self.transport.size)

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

    def _joined(self, subject: str, term: Term) -> int:
        """The number of the next execution, when all ranks agree on it."""
        with self._lock:
            self._launched += 1
            number = self._launched
            if number == 1 and not self._all_attend:
                term.period = math.inf  # the others may not be there yet to answer
            self._begin_to_watch()
            self._terms[number] = term
            self._term = term
        if subject in self._agreed or self.transport.size == 1:
            return number
        self._agreeing = (number, subject)
        try:
            in_time(
                lambda: agree(self.transport, number, subject, term.left(), self.has_failed), max(0, term.left()) + 0.1
            )
        except AgreementError:
            self._terms.pop(number)
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
        self, program: Program, contribution: Contribution, number: int, subject: str, term: Term,
        wire: torch.dtype | None,
    ) -> Running:  # fmt: skip
        """An execution that is known to be in flight."""
        key = (program.schedule.digest, contribution.flat.nbytes)

        def ended(error: Exception | None) -> bool:
            if paced is not None:
                paced.end()
            if error is None:
                try:
                    contribution.settle()
                    self.deadlines.took(key, term.passed())
                except Exception as problem:
                    error = problem
            return self._left(number, term, error)

        execution = Execution(
            program, contribution.flat, self.transport, number % TAGS, self.scratch, term, ended, wire
        )
        running = Running(self, execution, number, subject)
        with self._lock:
            self._in_flight[number] = running
        paced = self.pacing if self.pacing is not None and self.pacing.begin(program.schedule.digest) else None
        return running

    def _await_turn(self) -> None:
        """Where tags are not kept apart, the next one starts when the last has ended."""
        if not self.transport.keeps_tags_apart:
            for earlier in list(self._in_flight.values()):
                earlier.wait()

    def _left(self, number: int, term: Term, error: Exception | None) -> bool:
        """An execution has ended; if by a failure, that is everybody's. Whether all is well."""
        if error is not None and not isinstance(error, StoppedError):
            closed = [error.peer] if isinstance(error, TransportError) and not error.late else []
            self.fail(cause_of(error, term), closed)
        with self._lock:
            self._in_flight.pop(number, None)
            self._terms.pop(number, None)
        return error is None

    def fail(self, cause: str, lost: Sequence[int] = ()) -> None:
        """Give up on the transport: tell the others, and end everything that is in flight. Once only."""
        with self._lock:
            if self._failure is not None:
                return
            flying = sorted(self._in_flight.items())
            running = flying[0][1] if flying else None
            number, subject = (running.number, running.subject) if running else self._agreeing or (None, "nothing")
            execution = running.execution if running else None
            vigils = sorted(self._vigils, key=lambda vigil: vigil.term.begun)
            if number is None and vigils:
                subject = vigils[0].what
            report = report_of(self.transport.rank, self._launched, number, subject, execution, lost, vigils)
            self._failure = Failure(self.transport, report, cause, self._term.patience)
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
        """One look of the watch, at the clock and at the board. False ends the watch."""
        with self._lock:
            terms, vigils = sorted(self._terms.items()), list(self._vigils)
        kept = [*(term for _, term in terms), *(vigil.term for vigil in vigils)]
        over = [term for term in kept if term.left() < -0.5]  # whoever waits for it notices it before
        due = [(number, term) for number, term in terms if term.is_due()]
        doubtful = [vigil for vigil in vigils if vigil.term.is_due()]
        if over:
            self.fail(f"not finished after {over[0].passed():.1f} s")
        elif due:
            self._call_the_roll(*due[0])
        elif doubtful:
            self._ask_who_is_there(doubtful)
        elif self._board_answers:
            try:
                in_time(self._read_board, PATIENCE)
            except Exception:
                self._board_answers = False  # what is overdue will show whether that matters
        if self._failure is not None:
            self.error()  # listen now, not when somebody asks here: the others may have left by then
        return self._failure is None

    def _read_board(self) -> None:
        flying = list(self._in_flight.values())
        keys = [ALARM, ROLL, *(subject_key(running.number) for running in flying)]
        alarm, asked, *subjects = self.transport.board.read(keys)
        self._roll_call.answer(asked)
        if alarm is not None:
            self.fail(f"rank {alarm} has reported a failure")
        elif any(text not in (None, running.subject) for text, running in zip(subjects, flying, strict=True)):
            self.fail("another rank is about to execute something else")

    def _call_the_roll(self, number: int, term: Term) -> None:
        """An execution takes longer than measured times allow: fail, unless all are alive and some are only late."""
        question = f"{number}/{term.calls}"
        term.calls += 1
        heard = self._heard(question, term.patience)
        late = [rank for rank, launched in heard.items() if launched < number]
        if number not in self._terms:
            return
        if len(heard) < self.transport.size or (not late and term.passed() >= term.quiet):
            self.fail(f"not finished after {term.passed():.1f} s")
        elif late and term.calls & (term.calls - 1) == 0:  # less and less often
            names = ", ".join(map(str, late))
            _log.warning(
                "execution %d waits for %.0f s: rank %s alive, but not there yet", number, term.passed(), names
            )

    def _ask_who_is_there(self, doubtful: Sequence[Vigil]) -> None:
        """What is waited for takes longer than usual: fail if a rank is silent."""
        self._asked += 1
        for vigil in doubtful:
            vigil.term.calls += 1
        oldest = min(doubtful, key=lambda vigil: vigil.term.begun)
        heard = self._heard(f"from {self.transport.rank}/{self._asked}", oldest.term.patience)
        if len(heard) < self.transport.size and any(vigil in self._vigils for vigil in doubtful):
            self.fail(f"not there after {oldest.term.passed():.1f} s")

    def _heard(self, question: str, patience: float) -> dict[int, int]:
        """What ranks answer to a roll call; nothing where the board does not work."""
        try:
            return in_time(lambda: self._roll_call.hold(question, patience), patience + 0.5)
        except Exception:
            return {}


_living: weakref.WeakSet[Communicator] = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    """Leave nobody waiting inside a library while the interpreter goes away.

    Gloo's threads let go of tensors a moment after all is done, and abort a process whose interpreter ends just then. Whoever
    lets go of a group last waits for its threads; so groups that were destroyed must be gone.
    """
    for communicator in list(_living):
        with contextlib.suppress(Exception):
            communicator.close()
    pool.settled(1.0)
    gc.collect()
    time.sleep(_MOMENT)
