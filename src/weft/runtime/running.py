"""Running: an execution in flight, as whoever waits for it sees it; and the words for what it is and what it ended by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from weft.runtime.deadline import Term
from weft.runtime.execution import Execution
from weft.runtime.transport import TransportError
from weft.schedule import Schedule

if TYPE_CHECKING:
    from weft.runtime.communicator import Communicator


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
        if not execution.done.wait(max(0.0, execution.term.left()) + 0.1):
            self._communicator.fail(f"not finished after {execution.term.passed():.1f} s")
            execution.done.wait(execution.term.patience)
        if not execution.succeeded:
            raise self._communicator.error()


def cause_of(error: Exception, term: Term) -> str:
    """What an execution ended by, in words."""
    if isinstance(error, TransportError):
        after = f"after {term.passed():.1f} s"
        if error.late:
            return f"no answer from rank {error.peer} {after}"
        return f"{error.reason} by rank {error.peer} {after}"
    return f"{type(error).__name__}: {error}"


def subject_of(schedule: Schedule, tensor: torch.Tensor, op: str, weights: tuple[float, ...] | None) -> str:
    """All that the ranks must agree on, in words."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    shares = "" if weights is None else f", weights {list(weights)}"
    return f"{op} of {tensor.numel()} {dtype} by {schedule.name} {schedule.digest}{shares}"
