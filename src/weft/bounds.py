"""A lower bound on the time of any all-reduce on a network, by counting.

Take any division of the active workers into k groups. For every element of the tensor, some group is the first to
know the whole sum. Until then every other group must have sent at least once: k - 1 transfers out of groups. After that
every other group must receive at least once: k - 1 transfers into groups. So at least 2(k - 1) times the tensor crosses
from group to group, and the links out of all groups together must carry it; so must the links into them. And every
group by itself sends and receives the tensor at least once.

Inactive workers may add and pass on, so each belongs to a group, or stands alone and is sent to besides the groups.

Divisions into single workers, into the regions of every level, and the narrowest division of all (``network.divisions``)
give the bound. It holds for any schedule, whatever its routes. Where every worker is active and every cable as fast in one
direction as in the other, no better one exists: the links then carry undirected spanning trees at exactly this rate
(Tutte 1961, Nash-Williams 1961), and each of these trees reduces and broadcasts at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.network import Network
from weft.network.divisions import group_flows, narrowest_division, narrowest_group, with_relays

Groups = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Bound:
    """No all-reduce of the tensor takes less than ``seconds``, and the reason."""

    seconds: float
    why: str


def bound(network: Network, nbytes: float, *, latency: bool = True) -> Bound:
    """The best bound that counting gives, or the longest latency where that is more."""
    active = network.active
    if len(active) < 2:
        return Bound(0.0, "one worker alone has nothing to send")
    best = _latency_bound(network) if latency else Bound(0.0, "")
    width = float("inf")
    for groups, what in _divisions(network):
        for candidate, own_width in _counting_bounds(network, groups, what, nbytes):
            width = min(width, own_width)
            best = _greater(best, candidate)
    for groups in _narrowest(network, width):
        for candidate, _ in _counting_bounds(network, groups, "group", nbytes):
            best = _greater(best, candidate)
    return best


def _narrowest(network: Network, width: float) -> Iterator[Groups]:
    """The division that is narrower than ``width``, if there is one; and the group that is cut off most, if it is another."""
    graph, active = network.graph, network.active
    mirrored = _mirrored(network)
    for inward in (True,) if mirrored else (True, False):
        groups = narrowest_division(graph, active, width, inward=inward)
        if len(groups) > 1:
            yield groups
    if not mirrored or network.inactive:
        group = narrowest_group(graph, active)
        yield [group, [rank for rank in active if rank not in set(group)]]


def _greater(best: Bound, other: Bound) -> Bound:
    """The other only if it is clearly greater, so that of equal reasons the plainest is told."""
    return other if other.seconds > best.seconds * (1 + 1e-9) else best


def _divisions(network: Network) -> Iterator[tuple[Groups, str]]:
    tree = network.region_tree
    yield [(rank,) for rank in network.active], "worker"
    for level in range(tree.levels):
        yield tree.at_level(level), "region"


def _counting_bounds(network: Network, groups: Groups, what: str, nbytes: float) -> Iterator[tuple[Bound, float]]:
    """Bounds by what every group and by what all groups must send and receive, each with the division's width."""
    graph, k = network.graph, len(groups)
    relays = [network.node_numbers[name] for name in network.inactive]
    everyone = with_relays(graph, groups, relays) if relays else groups
    for inward, verb in ((False, "send"), (True, "receive")):
        own = group_flows(graph, groups, inward=inward).capacity
        total = float((group_flows(graph, everyone, inward=inward).capacity if relays else own).sum())
        least = int(np.argmin(own))
        name = _name(network, groups[least], what)
        yield Bound(nbytes / own[least], f"{name} must {verb} the tensor at least once"), total / (k - 1)
        why = f"the tensor must cross between {k} {what}s at least {2 * (k - 1)} times"
        yield Bound(2 * (k - 1) * nbytes / total, why), total / (k - 1)


def _mirrored(network: Network) -> bool:
    """Whether every cable is as fast in one direction as in the other."""
    rates: dict[tuple[str, str], float] = {}
    for link in network.links:
        rates[link.source, link.destination] = rates.get((link.source, link.destination), 0.0) + link.bandwidth
    return all(rates.get((there, here), 0.0) == rate for (here, there), rate in rates.items())


def _name(network: Network, group: Sequence[int], what: str) -> str:
    if len(group) == 1:
        return f"worker {network.workers[group[0]]}"
    for region in network.regions or ():
        if set(group) == {network.node_numbers[name] for name in region.workers} & set(network.active):
            return region.name
    return f"a {what} of {len(group)} workers"


def _latency_bound(network: Network) -> Bound:
    """The first active worker must hear from all others, and all others from it."""
    first, *others = network.active
    there = network.routes([first] * len(others), others).latency.max()
    back = network.routes(others, [first] * len(others)).latency.max()
    return Bound(float(max(there, back)), "the longest latency between two workers")
