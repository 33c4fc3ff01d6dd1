"""A lower bound on the time of any all-reduce on a network, by counting.

Take any division of the active workers into k groups. For every element of the tensor, some group is the first to
know the whole sum. Until then every other group must have sent at least once: k - 1 transfers out of groups. After that
every other group must receive at least once: k - 1 transfers into groups. So at least 2(k - 1) times the tensor crosses
from group to group, and the links out of all groups together must carry it; so must the links into them. And every
group by itself sends and receives the tensor at least once.

Divisions into single workers, and into the regions of every level, give the bound; it is tight for uniform networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.network import Network
from weft.network.cuts import cut_capacity

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
    for groups, what in _divisions(network):
        for candidate in _counting_bounds(network, groups, what, nbytes):
            best = max(best, candidate, key=lambda b: b.seconds)
    return best


def _divisions(network: Network) -> list[tuple[Groups, str]]:
    tree = network.region_tree
    divisions: list[tuple[Groups, str]] = [([(rank,) for rank in network.active], "worker")]
    for level in range(tree.levels):
        divisions.append((tree.at_level(level), "region"))
    return divisions


def _counting_bounds(network: Network, groups: Groups, what: str, nbytes: float) -> list[Bound]:
    graph = network.graph
    k = len(groups)
    outward, inward = [], []
    for group in groups:
        others = [rank for rank in network.active if rank not in set(group)]
        outward.append(cut_capacity(graph, group, others))
        inward.append(cut_capacity(graph, others, group))
    bounds: list[Bound] = []
    for capacities, verb in ((outward, "send"), (inward, "receive")):
        least = int(np.argmin(capacities))
        name = _name(network, groups[least], what)
        bounds.append(Bound(nbytes / capacities[least], f"{name} must {verb} the tensor at least once"))
        # Inactive workers may pass sums on, so what they can send counts too.
        relays = [_own_bandwidth(network, name, verb == "send") for name in network.inactive]
        crossing = 2 * (k - 1) * nbytes / (sum(capacities) + sum(relays))
        bounds.append(Bound(crossing, f"the tensor must cross between {k} {what}s at least {2 * (k - 1)} times"))
    return bounds


def _own_bandwidth(network: Network, worker: str, sending: bool) -> float:
    return sum(link.bandwidth for link in network.links if (link.source if sending else link.destination) == worker)


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
