"""A hypothesis: which workers are in a rack with a narrow uplink, and all rates. The search for the likeliest one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from weft.probing.fitting import LESS_ALIKE, first_rates, fit_hosts, fit_uplinks
from weft.probing.likelihood import misfit
from weft.probing.rounds import Floats, Ints, Measured

Rack = frozenset[int]
Racks = frozenset[Rack]
"""Only racks whose uplink can be felt. All other workers are taken to be joined without one."""

PER_RACK, PER_MEMBER = 4.0, 0.5
"""What a rack and each worker in one must gain in fit, so that chance does not make them."""
MOST_SLOW = 3
"""Racks of up to so many may be slow workers without a rack."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    racks: tuple[tuple[int, ...], ...]
    hosts: Floats
    """by worker, bytes per second"""
    uplinks: Floats
    """by rack"""
    score: float
    """misfit and penalties: the lower, the likelier"""

    @property
    def labels(self) -> Ints:
        """By worker, the number of its rack; those without get the last number, whose uplink is infinite."""
        found = np.full(len(self.hosts), len(self.racks), dtype=np.int64)
        for number, rack in enumerate(self.racks):
            found[list(rack)] = number
        return found

    @property
    def all_uplinks(self) -> Floats:
        return np.append(self.uplinks, np.inf)

    @property
    def key(self) -> Racks:
        return frozenset(map(frozenset, self.racks))

    @property
    def regions(self) -> tuple[tuple[int, ...], ...]:
        """All workers, divided: the racks, and those that are in none."""
        inside = {rank for rack in self.racks for rank in rack}
        rest = tuple(rank for rank in range(len(self.hosts)) if rank not in inside)
        return tuple(sorted([*self.racks, rest] if rest else self.racks))


@dataclass
class Search:
    """Scores of hypotheses on what was measured, and the way from one to a better one."""

    measured: Measured
    hosts: Floats
    scored: dict[Racks, Hypothesis] = field(default_factory=dict)

    def score(self, racks: Racks, like: Hypothesis | None = None) -> Hypothesis:
        """The hypothesis with these racks; uplinks of racks that it shares with ``like`` are taken from there."""
        if racks in self.scored:
            return self.scored[racks]
        ordered = tuple(sorted(tuple(sorted(rack)) for rack in racks))
        known = {} if like is None else dict(zip(like.racks, like.uplinks, strict=True))
        uplinks = np.array([known.get(rack, np.nan) for rack in ordered] + [np.inf])
        draft = Hypothesis(ordered, self.hosts, uplinks[:-1], 0.0)
        found = fit_uplinks(
            self.measured.destinations, self.measured.rates, self.hosts, self.hosts, draft.labels, uplinks, 2
        )
        self.scored[racks] = Hypothesis(ordered, self.hosts, uplinks[:-1], found + penalty_of(ordered, self.hosts))
        return self.scored[racks]

    def best(self, starts: Iterable[Racks], passes: int = 12) -> Hypothesis:
        """The best that steps from these starts lead to."""
        found = min((self.score(racks) for racks in starts), key=lambda one: one.score)
        for _ in range(passes):
            before = found
            for racks in neighbours(found, len(self.hosts)):
                found = min(found, self.score(racks, found), key=lambda one: one.score)
            if found is before:
                break
        return found

    def rivals(self, best: Hypothesis, most: int) -> list[Hypothesis]:
        """The likeliest hypotheses that divide the workers otherwise, and not only by racks that nobody feels."""
        distinct: dict[tuple[tuple[int, ...], ...], Hypothesis] = {}
        for one in sorted(self.scored.values(), key=lambda one: one.score):
            fewer = (self.scored.get(one.key - {rack}) for rack in one.key)
            if one.regions != best.regions and not any(other and other.score <= one.score for other in fewer):
                distinct.setdefault(one.regions, one)
        return list(distinct.values())[:most]


def neighbours(hypothesis: Hypothesis, workers: int) -> Iterator[Racks]:
    """Racks after one step: a worker moves, two racks become one, a rack is given up, two free workers become a rack."""
    racks = hypothesis.key
    free = [rank for rank in range(workers) if not any(rank in rack for rack in racks)]
    for rank in range(workers):
        home = next((rack for rack in racks if rank in rack), None)
        without = racks if home is None else (racks - {home}) | ({home - {rank}} if len(home) > 2 else set())
        if home is not None:
            yield without
        for rack in without:
            if rack - {rank} != (home or frozenset()) - {rank}:
                yield (without - {rack}) | {rack | {rank}}
    for one, other in combinations(racks, 2):
        yield (racks - {one, other}) | {one | other}
    for rack in racks:
        yield racks - {rack}
    for pair in combinations(free, 2):
        yield racks | {frozenset(pair)}
    if len(free) > 2:
        yield racks | {frozenset(free)}


def linked_groups(measured: Measured, hosts: Floats) -> list[Racks]:
    """Divisions to start from: workers joined step by step, those first whose streams to each other were the fastest."""
    workers = measured.workers
    near = np.full((workers, workers), np.nan)
    for to, rates in zip(measured.destinations, measured.rates, strict=True):
        for i, j in enumerate(to):
            if j >= 0:
                a, b = min(i, j), max(i, j)
                near[a, b] = near[b, a] = np.fmax(near[a, b], min(1.0, rates[i] / min(hosts[i], hosts[j])))
    near = np.where(np.isnan(near), np.nanmean(near) if np.isfinite(near).any() else 1.0, near)
    groups = [frozenset([rank]) for rank in range(workers)]
    found = []
    while len(groups) > 2:
        pairs = combinations(groups, 2)
        one, other = max(pairs, key=lambda pair: float(near[np.ix_(sorted(pair[0]), sorted(pair[1]))].mean()))
        groups = [group for group in groups if group not in (one, other)] + [one | other]
        found.append(frozenset(group for group in groups if len(group) > 1))
    return [frozenset(), *found]


def likeliest(
    measured: Measured, hosts: Floats | None = None, starts: Iterable[Racks] = ()
) -> tuple[Hypothesis, Search]:
    """The likeliest hypothesis, and the search that found it: the racks for these rates, the rates for these racks, again."""
    rates = first_rates(measured.destinations, measured.rates) if hosts is None else hosts.copy()
    begin = [*linked_groups(measured, rates), *starts]
    for _ in range(5):
        search = Search(measured, rates)
        found = search.best(begin)
        better = min([with_best_hosts(found, measured), *without_a_rack(found, measured)], key=lambda one: one.score)
        if better.score > found.score - 0.5:
            break
        rates, begin = better.hosts, [better.key, found.key, *(one.key for one in search.rivals(found, 4))]
    return found, search


def with_best_hosts(hypothesis: Hypothesis, measured: Measured) -> Hypothesis:
    """The same racks, with the workers' rates that fit best."""
    hosts = hypothesis.hosts.copy()
    found = fit_hosts(measured.destinations, measured.rates, hosts, hypothesis.labels, hypothesis.all_uplinks)
    return replace(hypothesis, hosts=hosts, score=found + penalty_of(hypothesis.racks, hosts))


def without_a_rack(hypothesis: Hypothesis, measured: Measured) -> list[Hypothesis]:
    """One rack less, for each: slow workers may have looked like a narrow uplink."""
    found = []
    for number, rack in enumerate(hypothesis.racks):
        if len(rack) <= MOST_SLOW:
            racks = hypothesis.racks[:number] + hypothesis.racks[number + 1 :]
            fewer = replace(hypothesis, racks=racks, uplinks=np.delete(hypothesis.uplinks, number))
            found.append(with_best_hosts(fewer, measured))
    return found


def penalty_of(racks: Iterable[Sequence[int]], hosts: Floats) -> float:
    """What racks, and rates that differ from the common one, must gain in fit to be believed."""
    odd = float((hosts != np.median(hosts)).sum())
    return sum(PER_RACK + PER_MEMBER * len(rack) for rack in racks) + LESS_ALIKE * odd


def variants(best: Hypothesis, measured: Measured) -> list[Hypothesis]:
    """What else might be, though nothing speaks for it yet, only nothing against it: the next rounds must decide.

    A slow worker is as fast as the others, and shared its way; two workers outside of all racks are in a rack of their own.
    """
    inside = {rank for rack in best.racks for rank in rack}
    free = [rank for rank in range(len(best.hosts)) if rank not in inside]
    common = float(np.median(best.hosts))
    typical = float(np.median(best.uplinks)) if best.racks else common
    drafts = []
    for rank, rate in enumerate(best.hosts):
        if rate < common:
            hosts = best.hosts.copy()
            hosts[rank] = common
            drafts.append((best.racks, hosts, best.uplinks))
    for pair in combinations(free, 2):
        if len(free) > 2 and typical < 0.85 * best.hosts[list(pair)].sum():
            racks = (*best.racks, pair)
            drafts.append((racks, best.hosts, np.append(best.uplinks, typical)))
    found = [Hypothesis(racks, hosts, uplinks, 0.0) for racks, hosts, uplinks in drafts]
    return [replace(one, score=misfit_of(measured, one) + penalty_of(one.racks, one.hosts)) for one in found]


def misfit_of(measured: Measured, hypothesis: Hypothesis) -> float:
    """How badly a hypothesis fits."""
    hosts = hypothesis.hosts
    return misfit(measured.destinations, measured.rates, hosts, hosts, hypothesis.labels, hypothesis.all_uplinks)
