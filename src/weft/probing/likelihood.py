"""How badly measured rates fit what racks of workers would give: a negative logarithm of their probability.

Three things happen to streams. One that has its link to itself gets all of it, give or take a few percent. Several that share
a link fill it together as exactly, but divide it unevenly: connections need seconds to become fair. And now and then something
else slows one down by any factor, while nothing makes it faster than its links. So the sum of the streams that a rack's link
holds back counts as one exact measurement, their shares of it as loose ones, and every exact measurement may be a glitch,
more likely a low one.
"""

from __future__ import annotations

import numpy as np

from weft.compiled import compiled
from weft.probing.rounds import Floats, Ints
from weft.probing.sharing import fair_rates

EXACT = 0.10
"""the deviation of an exact measurement, in logarithms"""
GLITCH = 0.15
"""how likely a glitch is"""
LOWER, HIGHER = 0.8, 0.2
"""how large glitches are on average, downwards and upwards"""
UNFAIR = 0.45
"""how large the deviation of a share is on average"""
LEAST = 0.01
"""of what is expected: less than this counts as this"""


@compiled
def surprise(deviation: float) -> float:
    """Of an exact measurement."""
    near = (1 - GLITCH) / (EXACT * 2.5066282746310002) * np.exp(-0.5 * (deviation / EXACT) ** 2)
    far = GLITCH / (LOWER + HIGHER) * np.exp(-abs(deviation) / (LOWER if deviation < 0 else HIGHER))
    return float(-np.log(near + far))


@compiled
def misfit_of_round(to: Ints, seen: Floats, expected: Floats, limits: Ints, links: int) -> float:
    """Of one round, given what was expected and which link limits each stream."""
    n = len(to)
    total = 0.0
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
    for link in range(links):
        if count[link] > 0:
            total += surprise(np.log(seen_sum[link] / expected_sum[link]))
    for i in range(n):
        if to[i] >= 0 and count[limits[i]] > 1:
            k = count[limits[i]]
            share = np.log(max(seen[i], LEAST * expected[i]) / expected[i]) - middle[limits[i]] / k
            # k shares of one sum are k - 1 measurements.
            total += (abs(share) / UNFAIR + np.log(2 * UNFAIR)) * (k - 1) / k
    return total


@compiled
def misfit(destinations: Ints, seen: Floats, hosts_out: Floats, hosts_in: Floats, rack: Ints, uplinks: Floats) -> float:
    """Of all rounds."""
    links = 2 * len(rack) + 2 * len(uplinks)
    total = 0.0
    for k in range(len(destinations)):
        expected, limits = fair_rates(destinations[k], hosts_out, hosts_in, rack, uplinks)
        total += misfit_of_round(destinations[k], seen[k], expected, limits, links)
    return total
