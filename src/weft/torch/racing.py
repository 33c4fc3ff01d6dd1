"""Racing: several ways take turns in real steps until it is known which is the fastest.

Turns scatter by a few percent, and ways are often as close as that. So whoever has not been shown to be slower has more turns;
these cost little, because they are steps of the training itself, hardly slower than the best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

Turns = Sequence[Sequence[float]]
"""for every way, what each of its turns has taken"""

LEAST_ROUNDS, LATER_ROUNDS, MOST_ROUNDS = 3, 8, 16
HOPELESS = 1.2
"""Whoever takes so many times as long as the fastest has no further turn, however few it had."""
MANY, FEW = 6, 3
"""go on when all have had the least number of turns, and later: three turns of the fastest may all be unlucky"""
SURE = 2.0
"""standard errors between two ways that are not as fast as each other"""
ALIKE = 0.01
"""A difference of this part of a step is not looked for."""


def having_a_turn(turns: Turns) -> list[int]:
    """Whose turn it is in the next round: nobody's when it is known who is the fastest, or does not matter any more."""
    if not all(turns):
        return list(range(len(turns)))
    rounds = max(map(len, turns))
    ranked = [(place, seconds) for place, seconds in fastest_first(turns) if len(turns[place]) == rounds]
    unsure = SURE * _noise(turns) * math.sqrt(math.pi / rounds)
    early = rounds < LEAST_ROUNDS
    behind = HOPELESS if early else 1 + unsure
    most = None if early else MANY if rounds < LATER_ROUNDS else FEW
    racing = sorted(place for place, seconds in ranked[:most] if seconds <= behind * ranked[0][1])
    decided = len(racing) < 2 or rounds >= MOST_ROUNDS or (not early and unsure <= ALIKE)
    return [] if decided else racing


def fastest_first(turns: Turns) -> list[tuple[int, float]]:
    """All ways, and what their turns took in the median: first those that had the most turns, then those that dropped out."""
    medians = [median(taken) for taken in turns]
    return sorted(enumerate(medians), key=lambda one: (-len(turns[one[0]]), one[1]))


def _noise(turns: Turns) -> float:
    """By what part turns of one way scatter about their median. A median of n has sqrt(pi / 2n) times that as its error."""
    several = [taken for taken in turns if len(taken) > 1]
    squares = sum((one / median(taken) - 1) ** 2 for taken in several for one in taken)
    return math.sqrt(squares / max(1, sum(len(taken) - 1 for taken in several)))
