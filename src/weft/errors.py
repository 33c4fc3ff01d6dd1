"""Every error that Weft raises on purpose.

A message says which value is wrong, where it stands, and what to do about it.

    WeftError
     ├── InputError          a value that a person gave: a size, a name, an option
     │    └── NetworkError   a network, or the file that describes it; carries every mistake found
     ├── ScheduleError       a schedule that is malformed
     │    └── ProofError     a well-formed schedule that is not an all-reduce
     ├── SimulationError     a simulation that cannot end: nothing moves any more
     ├── EmulationError      a network that this machine cannot emulate
     └── ExecutionError      a schedule that was not executed to its end
          ├── AgreementError the ranks were about to execute different things
          └── PeerError      a rank died, hangs, is cut off or has not joined; who waits for whom
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


class WeftError(Exception):
    """The root of the tree: ``except weft.WeftError`` catches all of ours and nothing else."""


class InputError(WeftError, ValueError):
    """A value that a person gave is wrong."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a network: where, and what, with a remedy."""

    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}" if self.place else self.problem


class NetworkError(InputError):
    """A network is wrong. ``mistakes`` has all that was found, not only the first."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        if len(self.mistakes) == 1:
            text = str(self.mistakes[0])
        else:
            text = f"{len(self.mistakes)} mistakes:\n" + "\n".join(f"  {mistake}" for mistake in self.mistakes)
        super().__init__(text)


class ScheduleError(WeftError, ValueError):
    """A schedule is malformed: a rank, a chunk or a line that cannot be."""


class ProofError(ScheduleError):
    """A schedule is well-formed, but some worker does not end with every contribution exactly once."""


class SimulationError(WeftError, RuntimeError):
    """A simulation cannot end."""


class EmulationError(WeftError, RuntimeError):
    """This machine cannot emulate a network, or failed to."""


class ExecutionError(WeftError, RuntimeError):
    """A schedule was not executed to its end. The tensor holds something in between."""


class AgreementError(ExecutionError):
    """The ranks were about to execute different things. ``said`` has what each of them meant."""

    def __init__(self, message: str, said: Mapping[int, str]) -> None:
        self.said = dict(said)
        super().__init__(message)


class PeerError(ExecutionError):
    """A rank died, hangs, is cut off or has not joined.

    ``culprits`` are the ranks to look at, ``silent`` those that do not answer, ``not_joined`` those that are alive but have
    not started, ``waits`` says who waits for whom: (rank, peer) pairs.
    """

    def __init__(
        self,
        message: str,
        culprits: Sequence[int] = (),
        silent: Sequence[int] = (),
        not_joined: Sequence[int] = (),
        waits: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.culprits, self.silent, self.not_joined = tuple(culprits), tuple(silent), tuple(not_joined)
        self.waits = tuple(waits)
        super().__init__(message)
