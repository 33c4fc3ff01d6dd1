"""Rounds: who sends to whom at once. In a round every worker sends at most one stream and receives at most one.

Streams that meet at one worker lose half of what the link could carry, so no round has two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NOBODY = -1


@dataclass(frozen=True, slots=True)
class Round:
    """By rank, to whom it sends; ``NOBODY`` for none."""

    destinations: tuple[int, ...]

    def __post_init__(self) -> None:
        to = [rank for rank in self.destinations if rank != NOBODY]
        assert len(to) == len(set(to)), "two streams meet at one worker"
        assert all(rank != source for source, rank in enumerate(self.destinations)), "a worker sends to itself"

    @property
    def sources(self) -> tuple[int, ...]:
        """By rank, from whom it receives."""
        found = [NOBODY] * len(self.destinations)
        for source, to in enumerate(self.destinations):
            if to != NOBODY:
                found[to] = source
        return tuple(found)

    @property
    def streams(self) -> int:
        """How many there are."""
        return sum(rank != NOBODY for rank in self.destinations)


def link_ratios(rates: Floats, expected: Floats, limits: Ints) -> Floats:
    """Of every link that held streams of a round back, what came over it to what was expected.

    Streams that share a link count together: how they divide it changes from moment to moment.
    """
    held = [limits == link for link in np.unique(limits[limits >= 0])]
    return np.array([rates[one].sum() / expected[one].sum() for one in held])


def pairing_rounds(workers: int) -> list[Round]:
    """Rounds of disjoint pairs, both of which send, so that every pair meets once: the circle method, in N - 1 rounds.

    With an odd number, one worker rests in every round, and there are N.
    """
    seats = workers + workers % 2
    rounds = []
    for turn in range(seats - 1):
        circle = [0, *((seat + turn) % (seats - 1) + 1 for seat in range(seats - 1))]
        to = [NOBODY] * seats
        for k in range(seats // 2):
            a, b = circle[k], circle[seats - 1 - k]
            to[a], to[b] = b, a
        rounds.append(Round(tuple(x if x < workers else NOBODY for x in to[:workers])))
    return rounds


@dataclass(frozen=True, slots=True)
class Measured:
    """Rounds, and what every stream reached in them."""

    destinations: Ints
    """by round and source"""
    rates: Floats
    """bytes per second, by round and source; 0 where there was no stream or nothing came"""

    @staticmethod
    def of(rounds: Sequence[Round], rates: Sequence[Sequence[float]]) -> Measured:
        return Measured(
            np.array([one.destinations for one in rounds], dtype=np.int64), np.array(rates, dtype=np.float64)
        )

    @property
    def workers(self) -> int:
        return int(self.destinations.shape[1])
