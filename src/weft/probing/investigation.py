"""The course of a probe: all pairs first, then rounds that tell hypotheses apart, until one is left or the time is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.probing.design import calm_of, crossing_round, inside_round, sparse_rounds, telling_round, undisturbed
from weft.probing.doubts import doubts
from weft.probing.hypotheses import Hypothesis
from weft.probing.rounds import Measured, Round, pairing_rounds
from weft.probing.search import Search, likeliest

Measure = Callable[[Round], Sequence[float]]
"""Has a round carried out; the rates of its streams, by source."""

BATCH = 3
CLEAR = 10.0
"""How much likelier (natural logarithms) than any other the best hypothesis is when the search ends."""
AGREED, LONGER, DISTURBED = 2, 5, 0.6
"""So many batches in a row must have led to the same racks; to more, if a smaller part of links than this was undisturbed."""


@dataclass(frozen=True)
class Investigation:
    measured: Measured
    best: Hypothesis
    pairing_rounds: int
    margin: float
    """how much likelier than the next the best hypothesis is, in natural logarithms"""


def most_rounds(workers: int) -> int:
    """How many rounds a probe has at most: O(N)."""
    return len(pairing_rounds(workers)) + 4 * workers + 4 + 4 * BATCH


def investigate(measure: Measure, workers: int, over: Callable[[], bool] = lambda: False) -> Investigation:
    """Measure rounds until the network is clear, ``over`` says so, or there were as many as allowed."""
    random = np.random.default_rng(0)
    done: list[Round] = []
    rates: list[Sequence[float]] = []

    def carry_out(rounds: Sequence[Round]) -> None:
        for one in rounds:
            if not done or not over():
                done.append(one)
                rates.append(measure(one))

    pairing = pairing_rounds(workers)
    carry_out(pairing + sparse_rounds(workers, random))
    best, search = likeliest(Measured.of(done, rates))
    agreed, first = 0, True
    while workers > 2 and not over() and len(done) + BATCH <= most_rounds(workers):
        rivals = _rivals(best, search)
        if first and len(best.regions) > 1:
            carry_out(_filling_rounds(best, random))
        else:
            calm = calm_of(best, Measured.of(done, rates))
            carry_out([telling_round(best, rivals, calm, random) for _ in range(BATCH)])
        first = False
        measured = Measured.of(done, rates)
        found, search = likeliest(measured, [best, *rivals])
        agreed = agreed + 1 if found.regions == best.regions else 0
        best = found
        needed = AGREED if undisturbed(best, measured).mean() > DISTURBED else LONGER
        if agreed >= needed and _margin(best, search) >= CLEAR:
            break
    return Investigation(Measured.of(done, rates), best, len(pairing), _margin(best, search))


def compile_inference() -> None:
    """Have everything compiled that an investigation needs: on the first run ever this takes half a minute."""
    investigate(lambda one: [1.0] * len(one.destinations), 3)


def _filling_rounds(best: Hypothesis, random: np.random.Generator) -> list[Round]:
    """The first after all pairs have met: uplinks are full, and empty."""
    workers = len(best.hosts)
    crossing = [crossing_round(best.regions, workers, random) for _ in range(BATCH - 1)]
    return [inside_round(best.regions, workers), *crossing]


def _rivals(best: Hypothesis, search: Search) -> list[Hypothesis]:
    """What else is likely, or not yet excluded; the likeliest first."""
    found = [*search.rivals(best, 8), *doubts(best, search.measured)]
    return sorted(found, key=lambda one: one.score)[:16]


def _margin(best: Hypothesis, search: Search) -> float:
    return min((rival.score - best.score for rival in _rivals(best, search)), default=float("inf"))
