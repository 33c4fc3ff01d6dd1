"""Round and Pattern: which workers average with which, step by step.

A round divides the workers into groups, and each group replaces what its members hold by their average. Where a worker only
hears from some of its group, as in gossip on a directed graph, the round says who sends to whom; each then averages what it
holds with what it was sent. A pattern gives a round for every step, and repeats after its period.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError

Group = tuple[int, ...]
"""Ranks, in order."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Round:
    """The groups of one step. Without ``sends`` all members of a group average; with it, each what it holds and is sent."""

    groups: tuple[Group, ...]
    sends: tuple[tuple[int, int], ...] = ()
    """(source, destination) pairs of ranks"""

    def group_of(self, rank: int) -> Group:
        """Who averages together with a worker, itself included."""
        for group in self.groups:
            if rank in group:
                return group
        raise InputError(f"rank {rank} is in none of the groups {self.groups}")

    def heard_by(self, rank: int) -> Group:
        """Whose values the worker's new value is the mean of."""
        if not self.sends:
            return self.group_of(rank)
        return tuple(sorted([rank, *(source for source, destination in self.sends if destination == rank)]))

    def mixed(self, rows: Floats, place: dict[int, int]) -> Floats:
        """What the workers hold after the round, if worker r held ``rows[place[r]]`` before it."""
        after = np.empty_like(rows)
        if self.sends:
            for rank, row in place.items():
                after[row] = rows[[place[other] for other in self.heard_by(rank)]].mean(axis=0)
            return after
        for group in self.groups:
            members = [place[rank] for rank in group]
            after[members] = rows[members].mean(axis=0)
        return after


class Pattern(Protocol):
    """A round for every step: the same on every rank, computed from numbers that all of them have."""

    @property
    def name(self) -> str: ...

    @property
    def ranks(self) -> tuple[int, ...]:
        """The workers that take part, in order."""
        ...

    @property
    def period(self) -> int:
        """After so many steps it repeats."""
        ...

    def round(self, step: int) -> Round: ...


def in_groups(groups: list[list[int]]) -> Round:
    """A round of groups, each in rank order, the one with the lowest rank first; empty ones are left out."""
    return Round(tuple(sorted(tuple(sorted(group)) for group in groups if group)))
