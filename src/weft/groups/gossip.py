"""Patterns that ask nothing of the network: everybody every H steps, and gossip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import gcd

from weft.errors import InputError
from weft.groups.rounds import Round, in_groups

MATCHINGS = 64
"""So many random matchings are drawn before they repeat."""


@dataclass(frozen=True)
class Everybody:
    """All workers average in every H-th step, and nobody in between: BSP for H = 1, else local SGD."""

    ranks: tuple[int, ...]
    every: int = 1

    def __post_init__(self) -> None:
        _check(self.ranks)
        if self.every < 1:
            raise InputError(f"an average every {self.every} steps is not possible: it must be at least 1")

    @property
    def name(self) -> str:
        return "all" if self.every == 1 else f"all every {self.every} steps"

    @property
    def period(self) -> int:
        return self.every

    def round(self, step: int) -> Round:
        together = (step + 1) % self.every == 0
        return Round((self.ranks,) if together else tuple((rank,) for rank in self.ranks))


@dataclass(frozen=True)
class ExponentialGraph:
    """The dynamic exponential graph (Assran et al. 2019): in step t everybody sends to the worker 2^(t mod log N) further on.

    Each averages what it holds and what it hears, half and half. Among 2^k workers all agree exactly after k steps; among
    others the matrices stay doubly stochastic, and the rest of a disagreement shrinks from period to period.
    """

    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        _check(self.ranks)

    @property
    def name(self) -> str:
        return "exponential graph"

    @property
    def period(self) -> int:
        return max(1, (len(self.ranks) - 1).bit_length())

    def round(self, step: int) -> Round:
        count = len(self.ranks)
        hop = 1 << step % self.period
        if count == 1:
            return Round((self.ranks,))
        sends = tuple((rank, self.ranks[(i + hop) % count]) for i, rank in enumerate(self.ranks))
        circles = gcd(hop, count)
        return Round(tuple(tuple(self.ranks[i::circles]) for i in range(circles)), sends)


@dataclass(frozen=True)
class RandomMatching:
    """Pairs that are drawn anew for every step, from a seed that all workers share; of an odd number one stays alone."""

    ranks: tuple[int, ...]
    seed: int = 0
    period: int = MATCHINGS

    def __post_init__(self) -> None:
        _check(self.ranks)
        if self.period < 1:
            raise InputError(f"{self.period} matchings are not possible: draw at least 1")

    @property
    def name(self) -> str:
        return "random matching"

    def round(self, step: int) -> Round:
        # A hash is the same on every machine, whatever its version of a random generator.
        turn = step % self.period
        order = sorted(self.ranks, key=lambda rank: sha256(f"{self.seed} {turn} {rank}".encode()).digest())
        return in_groups([order[i : i + 2] for i in range(0, len(order), 2)])


def _check(ranks: Sequence[int]) -> None:
    if not ranks or list(ranks) != sorted(set(ranks)):
        raise InputError(f"the ranks {tuple(ranks)} are not possible: give at least one, in order, none twice")
