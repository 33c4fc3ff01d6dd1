"""Consensus: how fast a pattern makes all workers agree, and whether it does at all.

A round is a matrix W, doubly stochastic: worker i's new value is the sum of W[i][j] times j's. Over a period the product P of
the rounds tells how far all are from the average, J x (J = 1/N everywhere): no further than |P - J| times as far as before, in
the spectral norm. (P is not symmetric, so its second eigenvalue says less.) Averages within groups are projections, so the norm
is below 1 if, and only if, every two workers meet within the period, directly or through others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from weft.errors import InputError
from weft.groups.parts import InParts
from weft.groups.rounds import Floats, Pattern

MOST_ROUNDS = 4096
"""No more rounds are looked at: some patterns of uneven racks repeat after millions. What all agree on by then, they agree on."""
CONVERGED = 1e-12
"""Less disagreement than this need not be followed any further."""
EXACT = 1e-15
"""Less than this is rounding."""
LEAST_CONTRACTION = 1e-9


@dataclass(frozen=True, slots=True)
class Consensus:
    """Over so many ``rounds``, a period or fewer, disagreement shrinks to ``contraction`` of what it was, or less."""

    rounds: int
    contraction: float

    @property
    def rate(self) -> float:
        """What is left after one round, on average."""
        return float(self.contraction ** (1 / self.rounds))

    def __str__(self) -> str:
        left = "nothing" if self.contraction == 0 else f"at most {self.contraction:.3g}"
        steps = f"{self.rounds} step{'s' * (self.rounds != 1)}"
        return f"of any disagreement {left} is left after {steps} ({self.rate:.3f} a step)"


def consensus(pattern: Pattern) -> Consensus:
    """How much a period of the pattern contracts."""
    if isinstance(pattern, InParts):
        each = consensus(pattern.pattern)
        return Consensus(each.rounds * pattern.parts, each.contraction)
    found, parts = _consensus(pattern, 0)
    others = [_consensus(pattern, number)[0] for number in range(1, parts)]
    return max([found, *others], key=lambda one: one.rate)


def _consensus(pattern: Pattern, number: int) -> tuple[Consensus, int]:
    """Of the elements of one part, and how many parts there are: more than 1 where some groups average parts."""
    count = len(pattern.ranks)
    place = {rank: row for row, rank in enumerate(pattern.ranks)}
    product = np.eye(count) - 1 / count
    rounds, parts = 0, 1
    for step in range(min(pattern.period, MOST_ROUNDS)):
        now = pattern.round(step)
        product, parts = now.mixed(product, place, number), max(parts, now.part.parts)
        rounds += 1
        if np.abs(product).max() < CONVERGED:
            break
    if np.abs(product).max() < EXACT:
        return Consensus(rounds, 0.0), parts
    return Consensus(rounds, float(np.linalg.norm(product, 2))), parts


def mixing_matrix(pattern: Pattern, step: int) -> Floats:
    """The matrix of one round, rows and columns in the order of ``pattern.ranks``."""
    place = {rank: row for row, rank in enumerate(pattern.ranks)}
    return pattern.round(step).mixed(np.eye(len(pattern.ranks)), place)


def never_meeting(pattern: Pattern) -> list[tuple[int, ...]]:
    """The sets of workers that never hear of each other, or nothing if all do."""
    leader = {rank: rank for rank in pattern.ranks}

    def found(rank: int) -> int:
        while leader[rank] != rank:
            leader[rank] = leader[leader[rank]]
            rank = leader[rank]
        return rank

    apart = len(leader)
    for step in range(min(pattern.period, MOST_ROUNDS)):
        for group in pattern.round(step).groups:
            for rank in group[1:]:
                one, other = found(group[0]), found(rank)
                apart -= one != other
                leader[max(one, other)] = min(one, other)
        if apart == 1:
            return []
    sets: dict[int, list[int]] = {}
    for rank in pattern.ranks:
        sets.setdefault(found(rank), []).append(rank)
    return [tuple(ranks) for ranks in sets.values()] if len(sets) > 1 else []


def check_partition(pattern: Pattern) -> None:
    """Refuse a pattern in which some worker is in no group, or in two, in some step."""
    for step in range(min(pattern.period, MOST_ROUNDS)):
        ranks = sorted(rank for group in pattern.round(step).groups for rank in group)
        if ranks != list(pattern.ranks):
            wrong = sorted(set(ranks) ^ set(pattern.ranks)) or sorted({r for r in ranks if ranks.count(r) > 1})
            raise InputError(
                f"in step {step} of {pattern.name} the ranks {wrong} are not in exactly one group: every worker must be"
            )


def check_uplinks(pattern: Pattern, racks: Sequence[Collection[int]]) -> None:
    """Refuse a pattern in which a rack has more than one worker in groups with others: its uplink has one connection."""
    home = {rank: number for number, ranks in enumerate(racks) for rank in ranks}
    for step in range(min(pattern.period, MOST_ROUNDS)):
        away: dict[int, int] = {}
        for group in pattern.round(step).groups:
            if len({home[rank] for rank in group}) == 1:
                continue
            for rank in group:
                if home[rank] in away:
                    raise InputError(
                        f"in step {step} of {pattern.name} the ranks {away[home[rank]]} and {rank} of one rack meet others: "
                        "an uplink has one connection"
                    )
                away[home[rank]] = rank


def check_consensus(pattern: Pattern) -> Consensus:
    """The pattern's rate; a pattern that divides wrongly or does not reach consensus is refused."""
    check_partition(pattern)
    apart = never_meeting(pattern)
    if apart:
        sets = " and ".join(_some(ranks) for ranks in apart[:3])
        raise InputError(
            f"{pattern.name} does not reach consensus: the workers {sets} never hear of each other in "
            f"{min(pattern.period, MOST_ROUNDS)} steps; let them meet in some step"
        )
    found = consensus(pattern)
    if found.contraction > 1 - LEAST_CONTRACTION:
        raise InputError(
            f"{pattern.name} does not reach consensus: {found.contraction:.12g} of a disagreement may be left after "
            f"{found.rounds} steps; let more workers meet"
        )
    return found


def _some(ranks: tuple[int, ...], most: int = 6) -> str:
    return ", ".join(map(str, ranks[:most])) + (", ..." if len(ranks) > most else "")
