"""Packing reduce and broadcast trees into a network, by column generation, with a certificate.

The paper solves the dual program by the ellipsoid method, one root at a time. Column generation uses the same oracle, the
cheapest tree at given prices, but lets a simplex solver set one price for all roots; it needs far fewer trees, and every
round yields a certificate: for any prices y of links with bandwidths b, no packing of trees is faster than

    min over roots of (cheapest reduce tree + cheapest broadcast tree)  /  sum of b y.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from weft.bounds import bound as counting_bound
from weft.errors import InputError
from weft.network import Network, full_mesh
from weft.packing.closure import Closure, Floats, Ints, closure_of
from weft.packing.master import BROADCAST, KINDS, LATE_BROADCAST, REDUCE, Formulation, Master
from weft.packing.pricing import FEW_RELAYS, price_all, shallow_tree, tree_cost, tree_depth
from weft.packing.seeds import seed_trees
from weft.packing.symmetry import symmetry_of

_SMOOTHING = 0.5
_SHALLOW = (1, 2, 3, 4, 6)
_SHALLOW_EVERY_ROUND = 40
"""Up to so many workers, shallow trees are added in every round; beyond, only in the last."""


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
    """Trees with their weights. A byte takes ``value`` seconds; no packing of trees takes less than ``bound``."""

    trees: tuple[Tree, ...]
    value: float
    bound: float
    formulation: Formulation
    rounds: int
    seconds: float

    @property
    def quality(self) -> float:
        """bound / value: 1 is optimal."""
        return self.bound / self.value if self.value > 0 else 1.0


def pack(
    network: Network,
    formulation: Formulation = "pipelined",
    *,
    gap: float = 0.003,
    seconds: float = 10.0,
    progress: Callable[[float], None] | None = None,
) -> Packing:
    """A packing that is proved to be within ``gap`` of the best, or the best that is found in the time.

    Among the packings that are equally fast, one whose trees are shallow. ``progress`` is called with the quality so far.
    """
    return packings(network, formulation, (2.0,), gap=gap, seconds=seconds, progress=progress)[0]


def packings(
    network: Network,
    formulation: Formulation = "pipelined",
    tastes: Sequence[float] = (0.5, 2.0, 4.0),
    *,
    gap: float = 0.003,
    seconds: float = 10.0,
    progress: Callable[[float], None] | None = None,
) -> list[Packing]:
    """Several packings that are equally fast; the higher the taste, the more a deep tree is avoided.

    They are the same to the program but not to a pipeline, so whoever executes one should try them. The default tastes were
    picked on a DGX-1; see docs/log.md for how much they matter there.
    """
    if formulation not in KINDS:
        raise InputError(f"the formulation {formulation!r} is unknown: use {', '.join(KINDS)}")
    if len(network.active) < 2:
        return [Packing((), 0.0, 0.0, formulation, 0, 0.0)]
    _compile()
    begun = time.monotonic()
    search = _Search(network, formulation)
    while search.bound < search.value * (1 - gap) and time.monotonic() - begun < seconds:
        if not search.improve():
            break
        if progress is not None:
            progress(search.bound / search.value)
    search.add_shallow_at_last()
    unit = search.closure.unit
    value, bound = search.value / unit, search.bound / unit
    return [
        Packing(search.solution(taste), value, bound, formulation, search.rounds, time.monotonic() - begun)
        for taste in tastes
    ]


@cache
def _compile() -> None:
    """Have everything compiled before the time is taken: on a new machine that takes longer than any packing."""
    tiny = full_mesh(4)
    for relays in (0, 1, FEW_RELAYS + 1):
        price_all(np.ones((2 + relays, 2 + relays)), 2, np.arange(2, dtype=np.int32))
    search = _Search(tiny.with_active(tiny.workers[:3]), "pipelined")
    search.improve()
    search.solution(1.0)


class _Search:
    """Column generation under way."""

    def __init__(self, network: Network, formulation: Formulation) -> None:
        self.network = network
        self.kinds = KINDS[formulation]
        self.closure: Closure = closure_of(network)
        self.symmetry = symmetry_of(network, self.closure)
        self.roots = self.symmetry.roots
        self.position = {int(root): i for i, root in enumerate(self.roots)}
        first = np.unique(self.symmetry.row, return_index=True)[1]
        self.bandwidth = self.closure.bandwidth[first]
        """of every row of the program: of one of its links"""
        self.master = Master(self.bandwidth, len(self.roots), formulation)
        for kind, root, parents in seed_trees(network, self.closure):
            self.add(kind, root, parents)
        self.value, self.prices = self.master.solve()
        # Counting bounds any all-reduce whose stages may overlap, so also those that may not.
        self.bound = counting_bound(network, 1.0, latency=False).seconds * self.closure.unit
        self.best_prices = self.prices
        self.best_certificate = 0.0
        self.rounds = 0

    def add(self, kind: int, root: int, parents: Ints) -> int:
        """Add a tree in all stages where its kind may run; how many of these are new. Others of its orbit are implied."""
        if root not in self.position:
            return 0
        links, loads = self.closure.loads(parents, upwards=kind == REDUCE)
        rows, which = np.unique(self.symmetry.row[links], return_inverse=True)
        shares = np.bincount(which, weights=loads / self.symmetry.size[self.symmetry.row[links]]).astype(np.float64)
        kinds = [REDUCE] if kind == REDUCE else [k for k in self.kinds if k != REDUCE]
        return sum(self.master.add(k, self.position[root], parents, rows.astype(np.int32), shares) for k in kinds)

    def link_prices(self, prices: Floats) -> Floats:
        """The prices of links from those of rows, one row a stage."""
        found: Floats = (prices / self.symmetry.size)[:, self.symmetry.row]
        return found

    def improve(self) -> bool:
        """One round: prices, cheapest trees, a certificate; false if nothing new is found."""
        self.rounds += 1
        mixed = self.prices if self.rounds == 1 else _SMOOTHING * self.best_prices + (1 - _SMOOTHING) * self.prices
        # Where the smoothed prices find nothing new, the program's own may.
        added = self.price(mixed) or self.price(self.prices)
        if added:
            self.value, self.prices = self.master.solve()
        return added > 0

    def price(self, prices: Floats) -> int:
        """Add the cheapest trees at these prices, and keep the certificate if it is the best."""
        active = self.closure.active
        costs = [self.closure.costs(stage) for stage in self.link_prices(prices)]
        up, up_least = price_all(np.ascontiguousarray(costs[0].T), active, self.roots)
        added = sum(self.add(REDUCE, int(root), up[i]) for i, root in enumerate(self.roots))
        down_least = np.full(len(self.roots), np.inf)
        for kind in self.kinds[1:]:
            down, least = price_all(costs[1 if kind == LATE_BROADCAST else 0], active, self.roots)
            down_least = np.minimum(down_least, least)
            added += sum(self.add(kind, int(root), down[i]) for i, root in enumerate(self.roots))
        if len(self.roots) <= _SHALLOW_EVERY_ROUND:
            added += self.add_shallow(costs)
        certificate = float((up_least + down_least).min()) / self.scale(prices)
        if certificate > self.best_certificate:
            self.best_certificate, self.best_prices = certificate, prices
            self.bound = max(self.bound, certificate)
        return added

    def scale(self, prices: Floats) -> float:
        """What the prices must be divided by so that a unit of time is worth one."""
        worth = prices @ self.bandwidth
        return float(worth.max() if self.master.lengths == 2 else worth.mean())

    def add_shallow(self, costs: list[Floats]) -> int:
        """Cheap trees of limited depth."""
        added = 0
        for depth in _SHALLOW:
            for root in self.roots.tolist():
                up, down = (shallow_tree(c, self.closure.active, root, depth) for c in (costs[0].T.copy(), costs[-1]))
                # On direct links there may be no tree so shallow.
                added += self.add(REDUCE, root, up) if np.isfinite(tree_cost(costs[0].T.copy(), up)) else 0
                added += self.add(BROADCAST, root, down) if np.isfinite(tree_cost(costs[-1], down)) else 0
        return added

    def add_shallow_at_last(self) -> None:
        """From here on only trees are exchanged for shallower ones; the packing stays as fast as it is."""
        if len(self.roots) > _SHALLOW_EVERY_ROUND:
            self.add_shallow([self.closure.costs(stage) for stage in self.link_prices(self.best_prices)])
            self.value, self.prices = self.master.solve()
        self.master.limit(self.value * (1 + 1e-6))

    def solution(self, taste: float) -> tuple[Tree, ...]:
        """The trees of a packing that is as fast as the fastest found, and shallow."""
        depths = np.array([float(tree_depth(parents)) for _, _, parents in self.master.trees])
        self.master.prefer(depths**taste)
        group = self.symmetry.group
        trees: list[Tree] = []
        for (kind, at, parents), weight in zip(self.master.trees, self.master.weights(), strict=True):
            if weight > 1e-7:
                name = "reduce" if kind == REDUCE else "broadcast"
                root = int(self.roots[at])
                trees += [
                    Tree(
                        name,
                        int(self.closure.ranks[move[root]]),
                        self.by_rank(_moved(parents, move)),
                        float(weight) / len(group),
                    )
                    for move in group
                ]
        return tuple(trees)

    def by_rank(self, parents: Ints) -> NDArray[np.int32]:
        ranks = np.full(len(self.network.workers), -2, dtype=np.int32)
        for node, parent in enumerate(parents.tolist()):
            ranks[self.closure.ranks[node]] = self.closure.ranks[parent] if parent >= 0 else parent
        return ranks


def _moved(parents: Ints, move: Ints) -> Ints:
    """A tree where a symmetry takes it."""
    moved = np.empty_like(parents)
    moved[move] = np.where(parents >= 0, move[np.maximum(parents, 0)], parents)
    return moved
