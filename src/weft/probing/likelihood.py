"""How badly measured rates fit what racks of workers would give: a negative logarithm of their probability.

Three things happen to streams. One that has its link to itself gets all of it, give or take a few percent. Several that share
a link fill it together as exactly, but divide it unevenly: connections need seconds to become fair. And now and then something
else slows one down by any factor, while nothing makes it faster than its links. So the sum of the streams that a rack's link
holds back counts as one exact measurement, their shares of it as loose ones, and every exact measurement may be a glitch,
more likely a low one. Glitches come together: there are rounds with hardly any, and rounds with little else.
"""

from __future__ import annotations

import numpy as np

from weft.compiled import compiled
from weft.probing.rounds import Floats, Ints
from weft.probing.sharing import alike_both_ways, fair_rates_on

EXACT = 0.07
"""the deviation of an exact measurement, in logarithms"""
GLITCHES = (0.05, 0.3, 0.8)
"""how likely glitches are in a round: machines may be idle, busy or stand still, each as likely as the others"""
LOWER, HIGHER = 0.5, 0.15
"""how large glitches are on average, downwards and upwards"""
UNFAIR = 0.45
"""how large the deviation of a share is on average"""
LEAST = 0.01
"""of what is expected: less than this counts as this"""


@compiled
def surprise(deviation: float, glitch: float) -> float:
    """Of an exact measurement."""
    near = (1 - glitch) / (EXACT * 2.5066282746310002) * np.exp(-0.5 * (deviation / EXACT) ** 2)
    far = glitch / (LOWER + HIGHER) * np.exp(-abs(deviation) / (LOWER if deviation < 0 else HIGHER))
    return float(-np.log(near + far))


@compiled
def misfit_of_round(to: Ints, seen: Floats, expected: Floats, limits: Ints, links: int) -> float:
    """Of one round, given what was expected and which link limits each stream."""
    n = len(to)
    seen_sum, expected_sum, count = np.zeros(links), np.zeros(links), np.zeros(links, dtype=np.int64)
    middle = np.zeros(links)
    for i in range(n):
        if to[i] >= 0:
            rate = max(seen[i], LEAST * expected[i])
            link = limits[i]
            seen_sum[link] += rate
            expected_sum[link] += expected[i]
            count[link] += 1
            middle[link] += np.log(rate / expected[i])
    shares = 0.0
    for i in range(n):
        if to[i] >= 0 and count[limits[i]] > 1:
            k = count[limits[i]]
            share = np.log(max(seen[i], LEAST * expected[i]) / expected[i]) - middle[limits[i]] / k
            # k shares of one sum are k - 1 measurements.
            shares += (abs(share) / UNFAIR + np.log(2 * UNFAIR)) * (k - 1) / k
    likely = 0.0
    calm = 0.0
    for state in range(len(GLITCHES)):
        total = 0.0
        for link in range(links):
            if count[link] > 0:
                total += surprise(np.log(seen_sum[link] / expected_sum[link]), GLITCHES[state])
        if state == 0:
            calm = total
        likely += np.exp(min(calm - total, 500.0)) / len(GLITCHES)
    return calm - float(np.log(likely)) + shares


@compiled
def misfit_on(to: Ints, seen: Floats, rack: Ints, rates_of_links: Floats) -> float:
    """Of all rounds, on links of these rates."""
    total = 0.0
    for k in range(len(to)):
        expected, limits = fair_rates_on(to[k], rack, rates_of_links)
        total += misfit_of_round(to[k], seen[k], expected, limits, len(rates_of_links))
    return total


@compiled
def misfit(to: Ints, seen: Floats, hosts: Floats, rack: Ints, uplinks: Floats) -> float:
    """The same where ways in are as wide as ways out."""
    return misfit_on(to, seen, rack, alike_both_ways(hosts, uplinks))
