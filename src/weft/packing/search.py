"""Column generation: trees are added to the packing program at its own prices, until they prove that nothing is missing.

The paper solves the dual program by the ellipsoid method, one root at a time. Column generation uses the same oracle, the
cheapest tree at given prices, but lets a simplex solver set one price for all roots; it needs far fewer trees, and every
round yields a certificate: for any prices y of links with bandwidths b, no packing of trees is faster than

    min over roots of (cheapest reduce tree + cheapest broadcast tree)  /  sum of b y.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.packing.closure import Closure, Floats, Ints
from weft.packing.master import BROADCAST, KINDS, LATE_BROADCAST, REDUCE, Formulation, Master
from weft.packing.pricing import price_all, shallow_tree, tree_cost, tree_depth
from weft.packing.symmetry import Symmetry

_SMOOTHING = 0.5
_SHALLOW = (1, 2, 3, 4, 6)
_SHALLOW_EVERY_ROUND = 40
"""Up to so many workers, shallow trees are added in every round; beyond, only in the last."""

Seeds = Iterable[tuple[int, int, Ints]]
"""Kind, root and parents of trees, in the numbering of the closure."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A reduce or broadcast tree; ``parents`` by rank, -1 at the root, -2 where a worker is not in it."""

    kind: str
    root: int
    parents: NDArray[np.int32]
    weight: float
    """the part of the tensor that it carries"""


class Search:
    """Column generation under way."""

    def __init__(
        self, closure: Closure, symmetry: Symmetry, formulation: Formulation, seeds: Seeds, bound: float = 0.0
    ) -> None:
        self.kinds = KINDS[formulation]
        self.closure = closure
        self.symmetry = symmetry
        self.roots = symmetry.roots
        self.position = {int(root): i for i, root in enumerate(self.roots)}
        first = np.unique(symmetry.row, return_index=True)[1]
        self.bandwidth = closure.bandwidth[first]
        """of every row of the program: of one of its links"""
        self.master = Master(self.bandwidth, len(self.roots), formulation)
        for kind, root, parents in seeds:
            self.add(kind, root, parents)
        self.value, self.prices = self.master.solve()
        self.bound = bound
        self.best_prices = self.prices
        self.best_certificate = 0.0
        self.rounds = 0

    def add(self, kind: int, root: int, parents: Ints) -> int:
        """Add a tree in all stages where its kind may run; how many of these are new. Others of its orbit are implied."""
        if root not in self.position or (kind == REDUCE and kind not in self.kinds):
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
        up_least, down_least = np.zeros(len(self.roots)), np.full(len(self.roots), np.inf)
        added = 0
        for kind in self.kinds:
            cost = costs[0].T.copy() if kind == REDUCE else costs[1 if kind == LATE_BROADCAST else 0]
            trees, least = price_all(cost, active, self.roots)
            added += sum(self.add(kind, int(root), trees[i]) for i, root in enumerate(self.roots))
            if kind == REDUCE:
                up_least = least
            else:
                down_least = np.minimum(down_least, least)
        if len(self.kinds) > 1 and len(self.roots) <= _SHALLOW_EVERY_ROUND:
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
        return self.trees()

    def trees(self) -> tuple[Tree, ...]:
        """The trees of the program's solution, on all orbits."""
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
                        self.closure.by_rank(_moved(parents, move)),
                        float(weight) / len(group),
                    )
                    for move in group
                ]
        return tuple(trees)


def _moved(parents: Ints, move: Ints) -> Ints:
    """A tree where a symmetry takes it."""
    moved = np.empty_like(parents)
    moved[move] = np.where(parents >= 0, move[np.maximum(parents, 0)], parents)
    return moved
