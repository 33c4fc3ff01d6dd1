"""Every error that Weft raises on purpose.

A message says which value is wrong, where it stands, and what to do about it.

    WeftError
     ├── InputError          a value that a person gave: a size, a name, an option
     │    └── NetworkError   a network, or the file that describes it; carries every mistake found
     ├── ScheduleError       a schedule that is malformed
     │    └── ProofError     a well-formed schedule that is not an all-reduce
     └── SimulationError     a simulation that cannot end: nothing moves any more
"""

from __future__ import annotations

from collections.abc import Sequence
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
