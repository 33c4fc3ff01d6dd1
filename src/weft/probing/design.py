"""The next round to measure: the one in which the likeliest hypotheses expect the most different things."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weft.probing.hypotheses import Hypothesis
from weft.probing.likelihood import misfit_of_round
from weft.probing.rounds import NOBODY, Floats, Ints, Measured, Round, link_ratios

TRIED = 90
"""rounds that are thought through before one is measured"""
ENOUGH = 8.0
"""Beyond this much, a difference decides anyway."""
NEAR = 0.15
"""A link that carried what was expected, but for so much, was not disturbed."""
ALL_STREAMS = 0.2
"""of the rounds that are drawn"""

Calm = Callable[[int], float]
"""Which part of the links of a round of so many streams is not disturbed."""


def sparse_rounds(workers: int, random: np.random.Generator) -> list[Round]:
    """Four rounds in which every worker sends once, a quarter of them at a time: few share anything, so rates of workers show."""
    if workers < 4:
        return []
    order = [int(rank) for rank in random.permutation(workers)]
    rounds = []
    for quarter in range(4):
        to = [NOBODY] * workers
        for place in range(quarter, workers, 4):
            to[order[place]] = order[(place + 1) % workers]
        rounds.append(Round(tuple(to)))
    return rounds


def inside_round(racks: Sequence[Sequence[int]], workers: int) -> Round:
    """Everybody sends to the next in its rack: nothing is shared, if the racks are right."""
    to = [NOBODY] * workers
    for rack in racks:
        if len(rack) > 1:
            for here, there in zip(rack, [*rack[1:], rack[0]], strict=True):
                to[here] = there
    return Round(tuple(to))


def crossing_round(regions: Sequence[Sequence[int]], workers: int, random: np.random.Generator) -> Round:
    """As many as possible send to another rack, so that uplinks are full: a shuffle in which as few as possible stay."""
    home = np.empty(workers, dtype=np.int64)
    for number, region in enumerate(regions):
        home[list(region)] = number
    # Listed by rack and turned by the size of the largest, nobody lands in its own rack unless one has more than half.
    order = [
        rank for number in random.permutation(len(regions)) for rank in random.permutation(np.array(regions[number]))
    ]
    turn = max(map(len, regions))
    to = [NOBODY] * workers
    for place, rank in enumerate(order):
        there = int(order[(place + turn) % workers])
        if home[there] != home[rank]:
            to[int(rank)] = there
    return Round(tuple(to))


def leaving_round(group: Sequence[int], best: Hypothesis) -> Round:
    """Some workers exchange with others wherever ways are widest, and nobody else sends: if they share an uplink, it shows."""
    regions = [region for region in (*best.racks, *((rank,) for rank in best.free)) if not set(region) & set(group)]
    uplinks = dict(zip(best.racks, best.uplinks, strict=True))
    rates = [min(uplinks.get(region, np.inf), best.hosts[list(region)].sum()) for region in regions]
    taken = [0] * len(regions)
    to = [NOBODY] * len(best.hosts)
    for rank in group:
        open_ones = [k for k, region in enumerate(regions) if taken[k] < len(region)]
        if not open_ones:
            break
        chosen = max(open_ones, key=lambda k: rates[k] / (taken[k] + 1))
        there = regions[chosen][taken[chosen]]
        taken[chosen] += 1
        to[rank], to[there] = there, rank
    return Round(tuple(to))


def shuffled_round(workers: int, random: np.random.Generator, streams: int) -> Round:
    """So many streams between workers at random."""
    order = [int(rank) for rank in random.permutation(workers)]
    to = [NOBODY] * workers
    for here, there in list(zip(order, [*order[1:], order[0]], strict=True))[:streams]:
        to[here] = there
    return Round(tuple(to))


def undisturbed(best: Hypothesis, measured: Measured) -> Floats:
    """By round, which part of the links that held streams back carried what was expected."""
    parts = []
    for to, rates in zip(measured.destinations, measured.rates, strict=True):
        parts.append(float(np.mean(np.abs(link_ratios(rates, *best.expected(to)) - 1) < NEAR)))
    return np.array(parts)


def calm_of(best: Hypothesis, measured: Measured) -> Calm:
    """As it was in rounds of about as many streams. Machines that many workers share are too slow for all of them at once."""
    parts = undisturbed(best, measured)
    streams = (measured.destinations >= 0).sum(axis=1)
    reach = max(1.0, measured.workers / 6)

    def calm(count: int) -> float:
        weights = np.exp(-np.abs(streams - count) / reach)
        return float((1 + weights @ parts) / (1 + weights.sum()))

    return calm


def telling_round(best: Hypothesis, rivals: Sequence[Hypothesis], calm: Calm, random: np.random.Generator) -> Round:
    """Of some rounds, the one that tells the best hypothesis from its rivals, the likeliest of them first."""
    workers = len(best.hosts)
    tried = [crossing_round(best.regions, workers, random) for _ in range(4)] if len(best.regions) > 1 else []
    tried += [crossing_round(one.regions, workers, random) for one in rivals if len(one.regions) > 1]
    news = {rack for one in rivals for rack in one.racks if rack not in best.racks}
    tried += [leaving_round(rack, best) for rack in sorted(news) if len(rack) < workers]
    while len(tried) < TRIED:
        streams = workers if random.random() < ALL_STREAMS else int(random.integers(2, workers + 1))
        tried.append(shuffled_round(workers, random, streams))
    # What a disturbed link tells is less than in proportion: it also makes the others of its round doubtful.
    gains = [gain_of(one, best, rivals) * calm(one.streams) ** 2 for one in tried]
    return tried[int(np.argmax(gains))]


def gain_of(one: Round, best: Hypothesis, rivals: Sequence[Hypothesis]) -> float:
    """How much likelier the best hypothesis becomes against its rivals by a round, if it is right."""
    to = np.array(one.destinations)
    expected, limits = best.expected(to)
    own = _misfit(to, expected, expected, limits, best)
    gain = 0.0
    for rival in rivals:
        worse = _misfit(to, expected, *rival.expected(to), rival) - own
        gain += min(worse, ENOUGH) * float(np.exp((best.score - rival.score) / 10))
    # A few streams disturb each other less than many.
    return gain / (1 + 0.02 * float((to >= 0).sum()))


def _misfit(to: Ints, seen: Floats, expected: Floats, limits: Ints, it: Hypothesis) -> float:
    return misfit_of_round(to, seen, expected, limits, 2 * len(to) + 2 * len(it.all_uplinks))
