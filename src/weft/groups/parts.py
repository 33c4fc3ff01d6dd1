"""Sparse groups: of every tensor one part is averaged in a step, in turn, so a step sends so much less.

A group stays together until it has averaged all parts; then the next round follows. So every element goes through all rounds
of the pattern, in their order, and agrees as the pattern does, only so many times as slowly. Everybody knows whose turn it is:
no index is sent, and nothing is rounded or left for later.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InputError
from weft.groups.rounds import Pattern, Round


@dataclass(frozen=True)
class InParts:
    """A pattern whose rounds last so many steps each, one for every part."""

    pattern: Pattern
    parts: int

    @property
    def name(self) -> str:
        return f"{self.pattern.name}, in {self.parts} parts"

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.pattern.ranks

    @property
    def period(self) -> int:
        return self.pattern.period * self.parts

    def round(self, step: int) -> Round:
        return self.pattern.round(step // self.parts)


def each_round_once(pattern: Pattern) -> Pattern:
    """The pattern whose rounds last one step each."""
    return pattern.pattern if isinstance(pattern, InParts) else pattern


def in_parts(pattern: Pattern, parts: int) -> Pattern:
    """The pattern itself where there is one part."""
    given: object = parts
    if not isinstance(given, int) or given < 1:
        raise InputError(f"parameters in {parts} parts are not possible: it must be 1 or more")
    return pattern if parts == 1 else InParts(pattern, parts)
