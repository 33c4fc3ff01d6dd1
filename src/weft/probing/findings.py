"""What a probe has found: a network that can be written down, and how well it explains what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.network import Link, Network, Region
from weft.probing.directions import Ways, directed
from weft.probing.hypotheses import Hypothesis, misfit_of
from weft.probing.investigation import Investigation
from weft.probing.rounds import Floats, Measured, link_ratios

ALLOWED = 5.0
"""How much worse (natural logarithms) workers may fit as a rack, and still be one because the others are."""
LIKE_OTHERS, WIDER = np.array([1.0, 1.2, 0.8, 1.5]), np.array([0.5, 0.7, 0.85])
"""What an uplink may carry that was not felt: of that of the others, or else of its workers together."""
ALIKE = 0.12
"""Rates that differ by less are taken to be the same: measurements are not better than that."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What was measured of two workers: seconds of a short message, bytes per second while all other pairs sent as well."""

    source: int
    destination: int
    latency: float
    bandwidth: float
    alone: float
    """bytes per second that the network found gives the pair when nobody else sends"""


@dataclass(frozen=True, slots=True)
class Findings:
    network: Network
    regions: tuple[tuple[int, ...], ...]
    """All ranks, by region."""
    uplinks_felt: tuple[bool, ...]
    """By region, whether its uplink was seen to hold streams back; the rate of one that was not is a guess."""
    fit_error: float
    """the median of |measured / expected - 1| over all links that held streams back, in all rounds"""
    margin: float
    pairs: tuple[Pair, ...]


def findings_of(investigation: Investigation, latencies: Floats, names: Sequence[str]) -> Findings:
    """The network of an investigation; ``latencies`` is seconds by pair of ranks."""
    measured = investigation.measured
    best, found = directed(_rounded(investigation.best), measured)
    divided, guesses = _regions(best, measured)
    regions = tuple(sorted(divided))
    uplinks = {region: (float(f"{rate:.3g}"),) * 2 for region, rate in guesses.items()} | found.uplinks
    network = _network(regions, found.hosts, uplinks, _link_latencies(latencies, regions), names)
    return Findings(
        network,
        regions,
        tuple(region in best.racks for region in regions),
        fit_error(found, measured),
        investigation.margin,
        tuple(_pairs(found, investigation, latencies)),
    )


def _rounded(it: Hypothesis) -> Hypothesis:
    """With the same rate where rates are nearly alike."""
    return replace(it, hosts=_alike(it.hosts), uplinks=_alike(it.uplinks))


def _alike(rates: Floats) -> Floats:
    """Rates of which those that are nearly alike are the same."""
    found = rates.copy()
    order = np.argsort(rates)
    begin = 0
    for place in range(1, len(order) + 1):
        if place == len(order) or rates[order[place]] > rates[order[begin]] * (1 + ALIKE):
            some = order[begin:place]
            found[some] = float(f"{np.median(rates[some]):.3g}")
            begin = place
    return found


def _regions(best: Hypothesis, measured: Measured) -> tuple[list[tuple[int, ...]], dict[tuple[int, ...], float]]:
    """The racks, and those that are in none: together, if they may be in one rack, else as far as they may.

    Also guesses of the uplinks that were not felt: like the others, or as much more as was seen to pass.
    """
    free = best.free
    if not best.racks or len(free) < 2:
        return list(best.regions), {}
    whole = float(best.hosts[list(free)].sum())
    for rate in (*(best.typical_uplink * LIKE_OTHERS), *(whole * WIDER)):
        if _may_be_racks(best, [free], measured, [rate]):
            return [*best.racks, free], {free: rate}
    groups: list[tuple[int, ...]] = [(rank,) for rank in free]
    merged = True
    while merged:
        merged = False
        for one, other in [(a, b) for a in groups for b in groups if a < b]:
            joined = tuple(sorted(one + other))
            rest = [group for group in groups if group not in (one, other)]
            racks = [joined, *(group for group in rest if len(group) > 1)]
            if _may_be_racks(best, racks, measured, best.typical_uplink * LIKE_OTHERS):
                groups, merged = [*rest, joined], True
                break
    return [*best.racks, *groups], {}


def _may_be_racks(
    best: Hypothesis, more: list[tuple[int, ...]], measured: Measured, rates: Sequence[float] | Floats
) -> bool:
    """Whether what was measured allows further racks with uplinks of one of these rates."""
    tried = [
        replace(best, racks=(*best.racks, *more), uplinks=np.append(best.uplinks, [rate] * len(more))) for rate in rates
    ]
    return min(misfit_of(measured, one) for one in tried) <= misfit_of(measured, best) + ALLOWED


def _link_latencies(latencies: Floats, regions: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Of a worker's link and of an uplink: messages inside a region cross two of the first, others two of each."""
    home = {rank: number for number, region in enumerate(regions) for rank in region}
    near: list[float] = []
    far: list[float] = []
    for (source, to), seconds in np.ndenumerate(latencies):
        if np.isfinite(seconds) and seconds > 0:
            (near if home[source] == home[to] else far).append(float(seconds))
    inside = float(np.median(near)) if near else float(np.median(far)) / 2 if far else 0.0
    between = float(np.median(far)) if far else inside
    return float(f"{inside / 2:.3g}"), float(f"{max(0.0, between - inside) / 2:.3g}")


def _network(
    regions: Sequence[tuple[int, ...]],
    hosts: Sequence[tuple[float, float]],
    uplinks: dict[tuple[int, ...], tuple[float, float]],
    latencies: tuple[float, float],
    names: Sequence[str],
) -> Network:
    """Workers under switches under a core, or under one switch where there is one region alone; rates are out and in."""
    near, far = latencies
    if not uplinks:
        links = [link for name, rates in zip(names, hosts, strict=True) for link in _links(name, "switch", rates, near)]
        return Network(tuple(names), tuple(links), ("switch",), (), name=f"{len(names)} workers, probed")
    typical = float(np.median([rate for rates in uplinks.values() for rate in rates]))
    links, switches, named = [], [], []
    for number, region in enumerate(regions):
        if len(region) == 1:
            links += _links(names[region[0]], "core", hosts[region[0]], near + far)
            continue
        switch = f"tor-{number}"
        switches.append(switch)
        for rank in region:
            links += _links(names[rank], switch, hosts[rank], near)
        links += _links(switch, "core", uplinks.get(region, (typical, typical)), far)
        named.append(Region(f"rack {number}", tuple(names[rank] for rank in region)))
    title = f"{len(names)} workers in {len(regions)} regions, probed"
    return Network(tuple(names), tuple(links), (*switches, "core"), tuple(named), name=title)


def _links(one: str, other: str, rates: tuple[float, float], latency: float) -> list[Link]:
    """The way out and the way in."""
    return [Link(one, other, rates[0], latency), Link(other, one, rates[1], latency)]


def fit_error(found: Ways, measured: Measured) -> float:
    """The median of |measured / expected - 1| over all links that held streams back, in all rounds."""
    rounds = zip(measured.destinations, measured.rates, strict=True)
    ratios = np.concatenate([link_ratios(rates, *found.expected(to)) for to, rates in rounds])
    return float(np.median(np.abs(ratios - 1))) if len(ratios) else 0.0


def _pairs(found: Ways, investigation: Investigation, latencies: Floats) -> list[Pair]:
    measured = investigation.measured
    pairs = []
    for to, rates in list(zip(measured.destinations, measured.rates, strict=True))[: investigation.pairing_rounds]:
        for source, destination in enumerate(to.tolist()):
            if destination >= 0:
                lone = np.full(len(to), -1, dtype=np.int64)
                lone[source] = destination
                expected, _ = found.expected(lone)
                latency = float(latencies[source, destination])
                pairs.append(Pair(source, destination, latency, float(rates[source]), float(expected[source])))
    return sorted(pairs, key=lambda pair: (pair.source, pair.destination))
