"""The workers' closure: every ordered pair of workers as one edge that uses the links of its route.

Trees are made of these edges, so switches, shared network cards and uplinks are modelled as they are. Workers whose route passes
through other workers are not joined: that is what trees are for, and in a tree those in between have use of what passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled
from weft.network import Network, Routes

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Closure:
    """Node ``i`` is worker ``ranks[i]``; active workers come first. The route of (u, v) is number ``u * n + v``."""

    workers: int
    """how many the network has"""
    ranks: Ints
    active: int
    routes: Routes
    bandwidth: Floats
    """of every link, in units of the fastest"""
    unit: float
    """bytes per second of one unit of bandwidth"""
    joined: Flags
    """whether there is an edge from u to v: ``joined[u, v]``"""

    @property
    def n(self) -> int:
        return len(self.ranks)

    @property
    def all_joined(self) -> bool:
        return bool(self.joined.sum() == self.n * (self.n - 1))

    def costs(self, prices: Floats) -> Floats:
        """What every edge costs when every link has a price: ``costs[u, v]``."""
        return _route_costs(self.routes.start, self.routes.links, self.routes.share, prices, self.joined)

    def loads(self, parents: Ints, upwards: bool) -> tuple[Ints, Floats]:
        """Which links a tree uses, and how often its data crosses each; towards the root or away from it."""
        load = np.zeros(len(self.bandwidth))
        _add_tree(self.routes.start, self.routes.links, self.routes.share, parents, upwards, load)
        used = np.flatnonzero(load).astype(np.int32)
        return used, load[used]

    def by_rank(self, parents: Ints) -> Ints:
        """A tree over ranks instead of nodes; -2 for workers that are not in it."""
        found = np.full(self.workers, -2, dtype=np.int32)
        found[self.ranks] = np.where(parents >= 0, self.ranks[np.maximum(parents, 0)], parents)
        return found


def closure_of(network: Network) -> Closure:
    """The closure of the active workers and the inactive ones, which may relay."""
    others = [rank for rank in range(len(network.workers)) if rank not in set(network.active)]
    closure = _closure(network, [*network.active, *others], len(network.active))
    if others and network.switches:
        # Relays are taken into a tree one by one. Without the routes through them none of them alone might be of use.
        return closure
    return replace(closure, joined=_without_workers_between(network, closure))


def closure_among(network: Network, ranks: Sequence[int]) -> Closure:
    """The closure of some workers, in this order. Every two are joined: their links alone might not hold them together."""
    return _closure(network, ranks, len(ranks))


def _closure(network: Network, nodes: Sequence[int], active: int) -> Closure:
    """With every two workers joined."""
    ranks = np.array(nodes, dtype=np.int32)
    n = len(ranks)
    routes = network.routes(np.repeat(ranks, n), np.tile(ranks, n))
    unit = float(network.graph.bandwidth.max()) if len(network.links) else 1.0
    joined = ~np.eye(n, dtype=np.bool_)
    return Closure(len(network.workers), ranks, active, routes, network.graph.bandwidth / unit, unit, joined)


def _without_workers_between(network: Network, closure: Closure) -> Flags:
    """Which pairs have no worker on their route except themselves."""
    n, routes = closure.n, closure.routes
    pair = np.repeat(np.arange(n * n), np.diff(routes.start))
    there = network.graph.destination[routes.links]
    between = (there < closure.workers) & (there != closure.ranks[pair % n])
    passed: Flags = np.bincount(pair[between], minlength=n * n).reshape(n, n) > 0
    joined: Flags = closure.joined & ~passed
    return joined


@compiled
def _route_costs(start: Longs, links: Ints, share: Floats, prices: Floats, joined: Flags) -> Floats:
    n = len(joined)
    costs = np.full((n, n), np.inf)
    for u in range(n):
        for v in range(n):
            if joined[u, v]:
                total = 0.0
                for hop in range(start[u * n + v], start[u * n + v + 1]):
                    total += share[hop] * prices[links[hop]]
                costs[u, v] = total
    return costs


@compiled
def _add_tree(start: Longs, links: Ints, share: Floats, parents: Ints, upwards: bool, load: Floats) -> None:
    n = len(parents)
    for v in range(n):
        if parents[v] >= 0:
            pair = v * n + parents[v] if upwards else parents[v] * n + v
            for hop in range(start[pair], start[pair + 1]):
                load[links[hop]] += share[hop]
