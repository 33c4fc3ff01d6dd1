"""Round and Pattern: which workers average with which, step by step.

A round divides the workers into groups, and each group replaces what its members hold by their average. Where a worker only
hears from some of its group, as in gossip on a directed graph, the round says who sends to whom; each then averages what it
holds with what it was sent. A pattern gives a round for every step, and repeats after its period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError

Group = tuple[int, ...]
"""Ranks, in order."""
Floats = NDArray[np.float64]


class Part(NamedTuple):
    """Of every tensor the part number ``number`` (from 0) of ``parts``, as even as it can be."""

    number: int = 0
    parts: int = 1

    def of(self, elements: int) -> slice:
        """Where it is among so many elements; it may be empty."""
        return slice(elements * self.number // self.parts, elements * (self.number + 1) // self.parts)


WHOLE = Part()


@dataclass(frozen=True, slots=True)
class Round:
    """The groups of one step. Without ``sends`` all members of a group average; with it, each what it holds and is sent.

    The groups of ``parted`` average only ``part`` of every tensor, all others whole tensors.
    """

    groups: tuple[Group, ...]
    sends: tuple[tuple[int, int], ...] = ()
    """(source, destination) pairs of ranks"""
    parted: tuple[Group, ...] = ()
    part: Part = WHOLE

    def part_of(self, group: Group) -> Part:
        """What a group averages of every tensor."""
        return self.part if group in self.parted else WHOLE

    def by_part(self) -> list[tuple[Round, Part]]:
        """The same as rounds one after the other, in each of which all groups average the same part; others are alone."""
        if not self.parted:
            return [(self, WHOLE)]
        others = [group for group in self.groups if group not in self.parted]
        return [(_among(others, self.parted), WHOLE), (_among(self.parted, others), self.part)]

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

    def mixed(self, rows: Floats, place: dict[int, int], number: int = 0) -> Floats:
        """What the workers hold after the round, of part ``number``, if worker r held ``rows[place[r]]`` before it."""
        after = np.empty_like(rows)
        if self.sends:
            for rank, row in place.items():
                after[row] = rows[[place[other] for other in self.heard_by(rank)]].mean(axis=0)
            return after
        for group in self.groups:
            members = [place[rank] for rank in group]
            still = group in self.parted and self.part.number != number
            after[members] = rows[members] if still else rows[members].mean(axis=0)
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


def in_groups(groups: list[list[int]], parted: list[list[int]] | None = None, part: Part = WHOLE) -> Round:
    """A round of groups, each in rank order, the one with the lowest rank first; empty ones are left out."""
    if not parted:
        return Round(_in_order(groups))
    return Round(_in_order(groups), (), _in_order(parted), part)


def _among(groups: Sequence[Group], alone: Sequence[Group]) -> Round:
    return Round(tuple(sorted([*groups, *((rank,) for group in alone for rank in group)])))


def _in_order(groups: list[list[int]]) -> tuple[Group, ...]:
    return tuple(sorted(tuple(sorted(group)) for group in groups if group))
