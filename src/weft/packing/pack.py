"""Packing reduce and broadcast trees into a network, by column generation, with a certificate.

The paper solves the dual program by the ellipsoid method, one root at a time. Column generation uses the same oracle, the
cheapest tree at given prices, but lets a simplex solver set one price for all roots; it needs far fewer trees, and every
round yields a certificate: for any prices y, no packing is faster than

    min over roots of (cheapest reduce tree + cheapest broadcast tree)  /  sum of b y.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.network import Network
from weft.packing.closure import Closure, Floats, Ints, closure_of
from weft.packing.master import BROADCAST, REDUCE, Master
from weft.packing.pricing import price_all
from weft.packing.seeds import seed_trees

_SMOOTHING = 0.5


@dataclass(frozen=True, slots=True)
class Tree:
    """A reduce or broadcast tree; ``parents`` by rank, -1 at the root, -2 where a worker is not in it."""

    kind: str
    root: int
    parents: NDArray[np.int32]
    weight: float
    """the part of the tensor that it carries"""


@dataclass(frozen=True, slots=True)
class Packing:
    """Trees with their weights. One byte takes ``value`` seconds, and with any trees at least ``bound``."""

    trees: tuple[Tree, ...]
    value: float
    bound: float
    rounds: int
    seconds: float

    @property
    def quality(self) -> float:
        """bound / value: 1 is optimal."""
        return self.bound / self.value if self.value > 0 else 1.0


def pack(network: Network, *, gap: float = 0.003, seconds: float = 10.0) -> Packing:
    """The best packing that is found within a time, or one that is proved to be within a gap of the best."""
    begun = time.monotonic()
    closure = closure_of(network)
    master = Master(closure.bandwidth, closure.active)
    for kind, root, parents in seed_trees(network, closure):
        _add(master, closure, kind, root, parents)
    value, weights, prices, _ = master.solve()
    best_bound, best_prices, rounds = 0.0, prices, 0
    while best_bound < value * (1 - gap) and time.monotonic() - begun < seconds:
        rounds += 1
        mixed = prices if rounds == 1 else _SMOOTHING * best_prices + (1 - _SMOOTHING) * prices
        bound, added = _priced(master, closure, mixed)
        if bound > best_bound:
            best_bound, best_prices = bound, mixed
        if not added:
            # The smoothed prices find nothing new: ask with the program's own.
            bound, added = _priced(master, closure, prices)
            if bound > best_bound:
                best_bound, best_prices = bound, prices
            if not added:
                break
        value, weights, prices, _ = master.solve()
    trees = tuple(
        Tree(
            "reduce" if kind == REDUCE else "broadcast",
            int(closure.ranks[root]),
            _by_rank(closure, parents, network),
            float(w),
        )
        for (kind, root, parents), w in zip(master.trees, weights, strict=True)
        if w > 1e-9
    )
    return Packing(trees, value / closure.unit, best_bound / closure.unit, rounds, time.monotonic() - begun)


def _add(master: Master, closure: Closure, kind: int, root: int, parents: Ints) -> bool:
    return master.add(kind, root, parents, *closure.loads(parents, upwards=kind == REDUCE))


def _priced(master: Master, closure: Closure, prices: Floats) -> tuple[float, int]:
    """A certificate at these prices, and how many new trees they suggest."""
    costs = closure.costs(prices)
    down, _, down_least = price_all(costs, closure.active)
    up, _, up_least = price_all(np.ascontiguousarray(costs.T), closure.active)
    bound = float((down_least + up_least).min() / (closure.bandwidth @ prices))
    added = 0
    for root in range(closure.active):
        added += _add(master, closure, REDUCE, root, up[root])
        added += _add(master, closure, BROADCAST, root, down[root])
    return bound, added


def _by_rank(closure: Closure, parents: Ints, network: Network) -> NDArray[np.int32]:
    by_rank = np.full(len(network.workers), -2, dtype=np.int32)
    for node, parent in enumerate(parents.tolist()):
        by_rank[closure.ranks[node]] = closure.ranks[parent] if parent >= 0 else parent
    return by_rank
