"""The rates of workers and of racks' uplinks that fit measured rounds best, for a given division into racks."""

from __future__ import annotations

import numpy as np

from weft.compiled import compiled
from weft.probing.likelihood import misfit
from weft.probing.rounds import Floats, Ints

LESS_ALIKE = 3.0
"""By how much the fit must improve (natural logarithms) for a worker or a rack to have a rate of its own."""
MUCH_LOWER = 0.6
COARSE, FINE = (1.5, 1.2, 1.06), (1.2, 1.06, 1.02)
"""steps by which a rate is changed as long as that helps, one after the other"""


@compiled
def _crossing_sums(to: Ints, seen: Floats, rack: Ints, one: int) -> Floats:
    """By round, what left a rack and what came in, where at least one stream did."""
    sums = []
    for k in range(len(to)):
        out, into = 0.0, 0.0
        for i in range(len(rack)):
            j = to[k, i]
            if j >= 0 and rack[i] != rack[j]:
                out += seen[k, i] if rack[i] == one else 0.0
                into += seen[k, i] if rack[j] == one else 0.0
        if out > 0:
            sums.append(out)
        if into > 0:
            sums.append(into)
    return np.array(sums) if len(sums) > 0 else np.zeros(1)


@compiled
def _better(
    to: Ints,
    seen: Floats,
    hosts: Floats,
    rack: Ints,
    uplinks: Floats,
    rates: Floats,
    at: int,
    best: float,
    steps: tuple[float, ...],
) -> float:
    """Improve ``rates[at]``, one of the arrays before, by steps up and down that become finer."""
    for step in steps:
        for factor in (step, 1 / step):
            while True:
                before = rates[at]
                rates[at] = before * factor
                now = misfit(to, seen, hosts, rack, uplinks)
                if now >= best - 1e-6:
                    rates[at] = before
                    break
                best = now
    return best


@compiled
def _quantile(ascending: Floats, share: float) -> float:
    """As NumPy's, of which the compiler makes a hundred functions in six seconds."""
    at = share * (len(ascending) - 1)
    below = int(at)
    above = min(below + 1, len(ascending) - 1)
    return float(ascending[below] + (ascending[above] - ascending[below]) * (at - below))


@compiled
def guess_uplinks(to: Ints, seen: Floats, hosts: Floats, rack: Ints, uplinks: Floats, worst: float) -> float:
    """Choose the uplinks that are NaN, in place; the misfit. One that begins beyond ``worst`` is not worth the time."""
    new = [one for one in range(len(uplinks)) if np.isnan(uplinks[one])]
    for one in new:
        uplinks[one] = max(_quantile(np.sort(_crossing_sums(to, seen, rack, one)), 0.7), 1.0)
    best = misfit(to, seen, hosts, rack, uplinks)
    for one in new:
        if best < worst:
            best = _better(to, seen, hosts, rack, uplinks, uplinks, one, best, COARSE)
    return best


@compiled
def fit_uplinks(to: Ints, seen: Floats, hosts: Floats, rack: Ints, uplinks: Floats) -> float:
    """Improve every uplink that is not infinite, in place; the misfit."""
    best = misfit(to, seen, hosts, rack, uplinks)
    for _ in range(3):
        before = best
        for one in range(len(uplinks)):
            if np.isfinite(uplinks[one]):
                best = _better(to, seen, hosts, rack, uplinks, uplinks, one, best, FINE)
        if before - best < 0.05:
            break
    return best


@compiled
def _better_together(
    to: Ints, seen: Floats, hosts: Floats, alike: Ints, rack: Ints, uplinks: Floats, best: float
) -> float:
    """The same for the one rate of several workers."""
    for step in (1.2, 1.07, 1.025):
        for factor in (step, 1 / step):
            while True:
                before = hosts.copy()
                for i in alike:
                    hosts[i] *= factor
                now = misfit(to, seen, hosts, rack, uplinks)
                if now >= best - 1e-6:
                    hosts[:] = before
                    break
                best = now
    return best


@compiled
def fit_hosts(to: Ints, seen: Floats, hosts: Floats, rack: Ints, uplinks: Floats) -> float:
    """Choose every worker's rate, out and in alike, in place; the misfit.

    Most workers have a rate in common, the median; one of its own must be worth it.
    """
    common = np.median(hosts)
    alike = np.flatnonzero(hosts == common)
    best = misfit(to, seen, hosts, rack, uplinks)
    if len(alike) > 1:
        best = _better_together(to, seen, hosts, alike, rack, uplinks, best)
        common = hosts[alike[0]]
    for one in range(len(hosts)):
        hosts[one], before = common, hosts[one]
        together = misfit(to, seen, hosts, rack, uplinks)
        hosts[one] = before
        own = _better(to, seen, hosts, rack, uplinks, hosts, one, misfit(to, seen, hosts, rack, uplinks), COARSE)
        if own > together - LESS_ALIKE:
            hosts[one], own = common, together
        best = own
    return best


def first_rates(to: Ints, seen: Floats) -> Floats:
    """A first guess of every worker's rate: the median of the best that each has sent or received.

    Of the best, the second, so that one odd value does not count; the rate of its own only where it is much lower.
    """
    rounds, workers = to.shape
    touching: list[list[float]] = [[] for _ in range(workers)]
    for k in range(rounds):
        for i in range(workers):
            if to[k, i] >= 0:
                touching[i].append(float(seen[k, i]))
                touching[to[k, i]].append(float(seen[k, i]))
    best = np.array([max(1.0, sorted(some)[-2] if len(some) > 1 else max(some, default=1.0)) for some in touching])
    common = np.sort(best)[workers // 2]
    return np.where(best < MUCH_LOWER * common, best, common)
