"""Links that carry less one way than the other: what is left of one on which somebody else's traffic runs.

Racks and rates are searched for as if every link carried the same both ways, which tells more from fewer rounds. Only then is
each way of each link given a rate of its own, where that explains much better what was measured. A worker whose link is
shared one way may have looked like a slow one, or one apart from the others, until then: that is looked at once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from weft.compiled import compiled
from weft.probing.hypotheses import Hypothesis, penalty_of
from weft.probing.likelihood import misfit_on
from weft.probing.rounds import Floats, Ints, Measured
from weft.probing.sharing import alike_both_ways, fair_rates_on

PER_WAY = 15.0
"""By how much the fit must improve (natural logarithms) for a way to have a rate of its own."""
STEPS = (1.5, 1.2, 1.06)
"""by which a rate is changed as long as that helps, one after the other"""
NOTABLE = 0.85
"""A way that carries more than this part of the other way is taken to be like it."""


@dataclass(frozen=True, slots=True)
class Ways:
    """Bytes per second of every link, one way and the other."""

    racks: tuple[tuple[int, ...], ...]
    rates: Floats
    """by the links' numbers; the last rack is that of the workers in none"""
    labels: Ints
    """by worker, its rack"""
    own: int
    """how many have a rate of their own"""
    score: float
    """misfit and penalties: the lower, the likelier"""

    @property
    def hosts(self) -> list[tuple[float, float]]:
        """By worker, out and in."""
        n = len(self.labels)
        return list(zip(self.rates[:n].tolist(), self.rates[n : 2 * n].tolist(), strict=True))

    @property
    def uplinks(self) -> dict[tuple[int, ...], tuple[float, float]]:
        """By rack, out and in."""
        out, into = np.split(self.rates[2 * len(self.labels) :], 2)
        return dict(zip(self.racks, zip(out[:-1].tolist(), into[:-1].tolist(), strict=True), strict=True))

    def expected(self, to: Ints) -> tuple[Floats, Ints]:
        """What the streams of a round should reach, by source, and which link limits each."""
        return fair_rates_on(to, self.labels, self.rates)


def directed(it: Hypothesis, measured: Measured) -> tuple[Hypothesis, Ways]:
    """The hypothesis with rates by direction; with other racks, if these are likelier then."""
    ways = _ways_of(it, measured)
    while True:
        others = [(one, _ways_of(one, measured)) for one in _others(it)]
        better, found = min(others, key=lambda both: both[1].score, default=(it, ways))
        if found.score > ways.score - PER_WAY:
            return it, ways
        it, ways = better, found


def _others(it: Hypothesis) -> Iterator[Hypothesis]:
    """One that seems slow, or in no rack, is like the others: where it is, or in one of the racks."""
    common = float(np.median(it.hosts))
    for rank, rate in enumerate(it.hosts):
        if rate == common and (rank not in it.free or not it.racks):
            continue
        hosts = it.hosts.copy()
        hosts[rank] = common
        if rate != common:
            yield replace(it, hosts=hosts)
        for rack in it.racks:
            if rank not in rack:
                yield replace(_with_member(it, rank, rack), hosts=hosts)


def _with_member(it: Hypothesis, rank: int, rack: tuple[int, ...]) -> Hypothesis:
    """After a worker has moved into one of the racks."""
    moved = [(tuple(sorted((*one, rank))) if one == rack else tuple(x for x in one if x != rank)) for one in it.racks]
    kept = [(one, rate) for one, rate in zip(moved, it.uplinks, strict=True) if len(one) > 1]
    return replace(it, racks=tuple(one for one, _ in kept), uplinks=np.array([rate for _, rate in kept]))


def _ways_of(it: Hypothesis, measured: Measured) -> Ways:
    """The rates of a hypothesis, and those of its ways that carry less than the other way."""
    to, seen, rack = measured.destinations, measured.rates, it.labels
    rates = alike_both_ways(it.hosts, it.all_uplinks)
    best, own = misfit_on(to, seen, rack, rates), 0
    while True:
        tried = [_with_own_rate(to, seen, rack, rates, link, best) for link in range(len(rates))]
        link = int(np.argmin([now for now, _ in tried]))
        now, rate = tried[link]
        if best - now < PER_WAY or rate > NOTABLE * rates[link]:
            return Ways(it.racks, rates, rack, own, best + PER_WAY * own + penalty_of(it))
        rates[link], best, own = float(f"{rate:.3g}"), now, own + 1


@compiled
def _with_own_rate(to: Ints, seen: Floats, rack: Ints, rates: Floats, link: int, best: float) -> tuple[float, float]:
    """The misfit if one link had another rate, and that rate."""
    if not np.isfinite(rates[link]):
        return best, rates[link]
    changed = rates.copy()
    for step in STEPS:
        for factor in (1 / step, step):
            while True:
                before = changed[link]
                changed[link] = before * factor
                now = misfit_on(to, seen, rack, changed)
                if now >= best - 1e-6:
                    changed[link] = before
                    break
                best = now
    return best, changed[link]
