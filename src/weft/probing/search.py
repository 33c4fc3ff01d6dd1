"""The search for the likeliest hypothesis: from divisions that the rates suggest, by steps that improve the score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from weft.probing.fitting import first_rates, fit_uplinks, guess_uplinks
from weft.probing.hypotheses import Hypothesis, Rack, Racks, penalty_of, scored, with_best_hosts, without
from weft.probing.rounds import Floats, Measured

MOST_SLOW = 3
"""Racks of up to so many may be slow workers without a rack."""
STEPS, CLIMBED, FAR_WORSE = 12, 3, 60.0
EXPLAINED = 5.0
"""What a rack must explain (natural logarithms) to be worth measuring for."""


@dataclass
class Search:
    """Scores of hypotheses on what was measured, all with the same rates of workers."""

    measured: Measured
    hosts: Floats
    groups: tuple[Rack, ...] = ()
    """sets of workers that seem to be close to each other"""
    found: dict[Racks, Hypothesis] = field(default_factory=dict)

    def score(self, racks: Racks, like: Hypothesis | None = None) -> Hypothesis:
        """The hypothesis with these racks; those that ``like`` has as well keep their uplinks.

        Of one that is far worse than ``like`` at first sight, the uplinks are only guessed.
        """
        if racks not in self.found:
            ordered = tuple(sorted(tuple(sorted(rack)) for rack in racks))
            known = {} if like is None else dict(zip(like.racks, like.uplinks, strict=True))
            uplinks = np.array([known.get(rack, np.nan) for rack in ordered] + [np.inf])
            labels = Hypothesis(ordered, self.hosts, uplinks[:-1]).labels
            worst = np.inf if like is None else like.score + FAR_WORSE
            guess_uplinks(self.measured.destinations, self.measured.rates, self.hosts, labels, uplinks, worst)
            self.found[racks] = scored(Hypothesis(ordered, self.hosts, uplinks[:-1]), self.measured)
        return self.found[racks]

    def polished(self, it: Hypothesis) -> Hypothesis:
        """The same racks with the uplinks that fit best."""
        uplinks = it.all_uplinks
        fit_uplinks(self.measured.destinations, self.measured.rates, self.hosts, it.labels, uplinks)
        self.found[it.key] = scored(replace(it, uplinks=uplinks[:-1]), self.measured)
        return self.found[it.key]

    def best(self, starts: Iterable[Racks]) -> Hypothesis:
        """The best that steps lead to: from the best of these starts, and from what explains the most on the way."""
        found = self._climbed(min((self.score(racks) for racks in starts), key=lambda one: one.score))
        for rival in self.rivals(found, CLIMBED):
            found = min(found, self._climbed(self.found[rival.key]), key=lambda one: one.score)
        return found

    def _climbed(self, found: Hypothesis) -> Hypothesis:
        for _ in range(STEPS):
            before = found
            for racks in neighbours(found, self.groups):
                found = min(found, self.score(racks, found), key=lambda one: one.score)
            if found is before:
                break
            found = self.polished(found)
        return found

    def rivals(self, best: Hypothesis, most: int) -> list[Hypothesis]:
        """The hypotheses that divide the workers otherwise and fit best, without those whose racks hardly explain anything.

        More racks need not pay for themselves here: as long as the measurements speak for them, more of these are needed.
        """
        distinct: dict[tuple[tuple[int, ...], ...], Hypothesis] = {}
        allowance = penalty_of(best)
        open_scores = {key: one.score - max(0.0, penalty_of(one) - allowance) for key, one in self.found.items()}
        for key in sorted(open_scores, key=lambda key: open_scores[key]):
            one = replace(self.found[key], score=open_scores[key])
            fewer = [open_scores[key - {rack}] for rack in key if key - {rack} in open_scores]
            if one.regions != best.regions and one.score < min(fewer, default=np.inf) - EXPLAINED:
                distinct.setdefault(one.regions, one)
        return list(distinct.values())[:most]


def neighbours(it: Hypothesis, groups: Iterable[Rack] = ()) -> Iterator[Racks]:
    """Racks after one step: a worker moves, two racks become one, a rack is given up, some workers become a rack."""
    racks = it.key
    for rank in range(len(it.hosts)):
        home = next((rack for rack in racks if rank in rack), frozenset[int]())
        left = (racks - {home}) | ({home - {rank}} if len(home) > 2 else set())
        if home:
            yield left
        for rack in left - {home - {rank}}:
            yield (left - {rack}) | {rack | {rank}}
    for one, other in combinations(racks, 2):
        yield (racks - {one, other}) | {one | other}
    for rack in racks:
        yield racks - {rack}
    for pair in combinations(it.free, 2):
        yield racks | {frozenset(pair)}
    if len(it.free) > 2:
        yield racks | {frozenset(it.free)}
    for group in groups:
        if group not in racks:
            yield frozenset(rack - group for rack in racks if len(rack - group) > 1) | {group}


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


def likeliest(measured: Measured, earlier: Sequence[Hypothesis] = ()) -> tuple[Hypothesis, Search]:
    """The likeliest hypothesis, and the search that found it.

    The search begins from what was likeliest earlier, and once more from nothing: with wrong rates of workers, right racks
    are not found, and the other way round.
    """
    starts = [one.key for one in earlier]
    searched = [_refined(measured, first_rates(measured.destinations, measured.rates), starts)]
    if earlier:
        searched.append(_refined(measured, earlier[0].hosts, starts))
    return min(searched, key=lambda both: both[0].score)


def _refined(measured: Measured, hosts: Floats, starts: Iterable[Racks]) -> tuple[Hypothesis, Search]:
    """The racks for these rates of workers, the rates for these racks, and so on."""
    begin = [*linked_groups(measured, hosts), *starts]
    groups = tuple({group for racks in begin for group in racks})
    for _ in range(5):
        search = Search(measured, hosts, groups)
        found = search.best(begin)
        # Slow workers may have looked like a narrow uplink, which the steps of the search cannot undo.
        fewer = [without(found, rack) for rack in found.racks if len(rack) <= MOST_SLOW]
        better = min((with_best_hosts(one, measured) for one in [found, *fewer]), key=lambda one: one.score)
        if better.score > found.score - 0.5:
            break
        hosts, begin = better.hosts, [better.key, found.key, *(one.key for one in search.rivals(found, 4))]
    return found, search
