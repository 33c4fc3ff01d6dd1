"""Column generation: trees are added to the packing program at its own prices, until they prove that nothing is missing.

The paper solves the dual program by the ellipsoid method, one root at a time. Column generation uses the same oracle, the
cheapest tree at given prices, but lets a simplex solver set one price for all roots; it needs far fewer trees, and every
round yields a certificate: for any prices y of links with bandwidths b, no packing of trees is faster than

    min over roots of (cheapest reduce tree + cheapest broadcast tree)  /  sum of b y.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from weft.packing.closure import Closure, Floats, Ints
from weft.packing.master import BROADCAST, KINDS, LATE_BROADCAST, REDUCE, Formulation, Master
from weft.packing.pricing import price_all, shallow_tree, tree_cost, tree_depth
from weft.packing.symmetry import Symmetry

_SMOOTHING = 0.5
_SHALLOW = (1, 2, 3, 4, 6)
FEW_ROOTS = 24
"""Up to so many, prices alone find the trees quickly; with more, trees are spread first."""
MANY_ROOTS = 40
"""Up to so many, shallow trees are added in every round; with more, only in the last."""
MOST_ROOTS_FOR_SHALLOW = 128
_STEEPNESS = 8.0
_WORTH_OF_SHALLOW = 0.1
_PART_FOR_SPREADING = 0.4
"""of the time, at most"""
_ROOTS_AT_ONCE = 4
_LEAST_FOR_TASTE = 0.5
"""seconds"""

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
        self,
        closure: Closure,
        symmetry: Symmetry,
        formulation: Formulation,
        seeds: Seeds,
        bound: float = 0.0,
        seconds: float = math.inf,
    ) -> None:
        self.kinds = KINDS[formulation]
        self.closure = closure
        self.symmetry = symmetry
        self.deadline = time.monotonic() + seconds
        self.roots = symmetry.roots
        self.position = {int(root): i for i, root in enumerate(self.roots)}
        first = np.unique(symmetry.row, return_index=True)[1]
        self.bandwidth = closure.bandwidth[first]
        """of every row of the program: of one of its links"""
        self.master = Master(self.bandwidth, len(self.roots), formulation)
        self.value = math.inf
        self.weights = np.zeros(0)
        """of the best packing so far, by number of the tree"""
        self.bound = bound
        self.prices = np.tile(1.0 / self.bandwidth, (self.master.stages, 1))
        self.best_prices = self.prices
        self.best_certificate = 0.0
        self.rounds = 0
        self.spreading = False
        for kind, root, parents in seeds:
            self.add(kind, root, parents)

    def add(self, kind: int, root: int, parents: Ints) -> int:
        """Add a tree in all stages where its kind may run; how many of these are new. Others of its orbit are implied."""
        if root not in self.position or (kind == REDUCE and kind not in self.kinds):
            return 0
        rows, shares = self.row_loads(parents, upwards=kind == REDUCE)
        kinds = [REDUCE] if kind == REDUCE else [k for k in self.kinds if k != REDUCE]
        return sum(self.master.add(k, self.position[root], parents, rows, shares) for k in kinds)

    def row_loads(self, parents: Ints, upwards: bool) -> tuple[Ints, Floats]:
        """Which rows of the program a tree's orbit uses, and how much of each."""
        links, loads = self.closure.loads(parents, upwards)
        rows, which = np.unique(self.symmetry.row[links], return_inverse=True)
        shares = np.bincount(which, weights=loads / self.symmetry.size[self.symmetry.row[links]])
        return rows.astype(np.int32), shares.astype(np.float64)

    def link_prices(self, prices: Floats) -> Floats:
        """The prices of links from those of rows, one row a stage."""
        found: Floats = (prices / self.symmetry.size)[:, self.symmetry.row]
        return found

    def begin(self, gap: float) -> None:
        """The best packing of the seeds; if there are many roots, of more trees, where seeds are poor or not good enough."""
        many, joined = len(self.roots) > FEW_ROOTS, self.closure.all_joined
        if many and not joined:
            self.spread()
        self.solve()
        if many and joined and self.bound < self.value * (1 - gap):
            self.spread()
            self.solve()
        self.best_prices = self.prices

    def improve(self) -> bool:
        """One round: prices, cheapest trees, a certificate; false if nothing new is found."""
        self.rounds += 1
        mixed = self.prices if self.rounds == 1 else _SMOOTHING * self.best_prices + (1 - _SMOOTHING) * self.prices
        # Where the smoothed prices find nothing new, the program's own may.
        added = self.price(mixed) or self.price(self.prices)
        if added:
            self.solve()
        return added > 0

    def solve(self) -> None:
        """Set prices and weights anew, as far as there is time."""
        found = self.master.solve(self.deadline - time.monotonic())
        if found is not None:
            self.prices = found.prices
            if found.value <= self.value:
                self.value, self.weights = found.value, found.weights

    def spread(self) -> None:
        """Trees that are laid one after the other where links are least loaded, all with the same weight.

        A few for every root come within some percent of the best packing, and with other weights often reach it. Prices alone
        need many more trees: between rounds they do not know what trees of the same round do to each other.
        """
        count = int(min(max(3 * len(self.roots), len(self.bandwidth) / 4), 200 + 0.75 * len(self.roots)))
        self.spreading = True
        order = np.tile(np.random.default_rng(0).permutation(self.roots), 1 + count // len(self.roots))
        begun = time.monotonic()
        used = np.zeros((self.master.stages, len(self.bandwidth)))
        numbers: list[int] = []
        for root in order[:count].tolist():
            if numbers and time.monotonic() - begun > _PART_FOR_SPREADING * (self.deadline - begun):
                break
            business = used / self.bandwidth
            steep = np.exp(_STEEPNESS * (business / np.maximum(business.max(axis=1, keepdims=True), 1e-300) - 1))
            costs = [self.closure.costs(stage) for stage in self.link_prices(steep / self.bandwidth)]
            for kind in dict.fromkeys((self.kinds[0], self.kinds[-1])):
                stage = 1 if kind == LATE_BROADCAST else 0
                cost = costs[0].T.copy() if kind == REDUCE else costs[stage]
                tree = self.cheap_and_shallow(cost, root)
                rows, loads = self.row_loads(tree, upwards=kind == REDUCE)
                used[stage, rows] += loads
                self.add(kind, root, tree)
                numbers.append(self.master.known[kind, tree.tobytes()])
        pairs = len(numbers) // len({self.kinds[0], self.kinds[-1]})
        self.consider(used / self.bandwidth / pairs, np.bincount(numbers, minlength=len(self.master.trees)) / pairs)

    def cheap_and_shallow(self, cost: Floats, root: int) -> Ints:
        """The shallowest tree that costs little more than the cheapest."""
        trees, _ = price_all(cost, self.closure.active, np.array([root], dtype=np.int32))
        least: Ints = trees[0]
        enough = tree_cost(cost, least) * (1 + _WORTH_OF_SHALLOW)
        for depth in _SHALLOW[1:]:
            tree = shallow_tree(cost, self.closure.active, root, depth)
            if tree_cost(cost, tree) <= enough:
                return tree
        return least

    def include(self, trees: Iterable[tuple[int, int, Ints, float]]) -> None:
        """Add the trees of a packing (kind, root, parents, weight; a weight may be 0), and keep it if it is the best so far."""
        used = np.zeros((self.master.stages, len(self.bandwidth)))
        carried: dict[int, float] = {}
        for kind, root, parents, weight in trees:
            self.add(kind, root, parents)
            number = self.master.known[kind, parents.tobytes()]
            carried[number] = carried.get(number, 0.0) + weight
            rows, loads = self.row_loads(parents, upwards=kind == REDUCE)
            used[1 if kind == LATE_BROADCAST else 0, rows] += loads * weight
        weights = np.zeros(len(self.master.trees))
        weights[list(carried)] = list(carried.values())
        self.consider(used / self.bandwidth, weights)

    def consider(self, business: Floats, weights: Floats) -> None:
        """Keep a packing that was made without the program, if it is the best so far."""
        longest = business.max(axis=1)
        value = float(longest.sum() if self.master.lengths == 2 else len(longest) * longest.max())
        if value < self.value:
            self.value, self.weights = value, weights.astype(np.float64)

    def price(self, prices: Floats) -> int:
        """Add the cheapest trees at these prices, and keep the certificate if it is the best."""
        costs = [self.closure.costs(stage) for stage in self.link_prices(prices)]
        up_least, down_least = np.zeros(len(self.roots)), np.full(len(self.roots), np.inf)
        added = 0
        for kind in self.kinds:
            cost = costs[0].T.copy() if kind == REDUCE else costs[1 if kind == LATE_BROADCAST else 0]
            trees, least = self.cheapest(cost)
            added += sum(self.add(kind, int(root), tree) for root, tree in zip(self.roots, trees, strict=False))
            if kind == REDUCE:
                up_least = least
            else:
                down_least = np.minimum(down_least, least)
        if len(self.kinds) > 1 and len(self.roots) <= MANY_ROOTS:
            added += self.add_shallow(costs)
        certificate = float((up_least + down_least).min()) / self.scale(prices)
        if certificate > self.best_certificate:
            self.best_certificate, self.best_prices = certificate, prices
            self.bound = max(self.bound, certificate)
        return added

    def cheapest(self, cost: Floats) -> tuple[list[Ints], Floats]:
        """The cheapest tree of every root, as far as there is time, and what each costs at the least: of the others nothing."""
        trees: list[Ints] = []
        least = np.zeros(len(self.roots))
        # With many relays a single root may take a tenth of a second.
        step = len(self.roots) if self.closure.active == self.closure.n else _ROOTS_AT_ONCE
        for first in range(0, len(self.roots), step):
            if first and time.monotonic() > self.deadline:
                break
            found, least[first : first + step] = price_all(cost, self.closure.active, self.roots[first : first + step])
            trees += [*found]
        return trees, least

    def scale(self, prices: Floats) -> float:
        """What the prices must be divided by so that a unit of time is worth one."""
        worth = prices @ self.bandwidth
        return float(worth.max() if self.master.lengths == 2 else worth.mean())

    def add_shallow(self, costs: list[Floats]) -> int:
        """Cheap trees of limited depth."""
        added = 0
        back = costs[0].T.copy()
        step = 1 + len(self.roots) // MOST_ROOTS_FOR_SHALLOW
        for depth, root in product(_SHALLOW, self.roots[::step].tolist()):
            up, down = (shallow_tree(c, self.closure.active, root, depth) for c in (back, costs[-1]))
            # Where not all are joined there may be no tree so shallow.
            added += self.add(REDUCE, root, up) if np.isfinite(tree_cost(back, up)) else 0
            added += self.add(BROADCAST, root, down) if np.isfinite(tree_cost(costs[-1], down)) else 0
        return added

    def add_shallow_at_last(self) -> None:
        """From here on only trees are exchanged for shallower ones; the packing stays as fast as it is."""
        if (self.spreading or len(self.roots) > MANY_ROOTS) and time.monotonic() < self.deadline:
            self.add_shallow([self.closure.costs(stage) for stage in self.link_prices(self.best_prices)])
            self.solve()
        self.master.limit(self.value * (1 + 1e-6))

    def solution(self, taste: float) -> tuple[Tree, ...]:
        """The trees of a packing that is as fast as the fastest found, and shallow."""
        return self.trees(self.shallow_weights(taste))

    def shallow_weights(self, taste: float) -> Floats:
        """What every tree carries in such a packing, by number; the best found so far, if there is no time."""
        depths = np.array([float(tree_depth(parents)) for _, _, parents in self.master.trees])
        shallow = self.master.prefer(depths**taste, max(_LEAST_FOR_TASTE, self.deadline - time.monotonic()))
        return self.weights if shallow is None else shallow

    def trees(self, weights: Floats) -> tuple[Tree, ...]:
        """The trees of a packing, on all orbits."""
        group = self.symmetry.group
        trees: list[Tree] = []
        for number in np.flatnonzero(weights > 1e-7).tolist():
            kind, at, parents = self.master.trees[number]
            name = "reduce" if kind == REDUCE else "broadcast"
            root = int(self.roots[at])
            for move in group:
                moved = self.closure.by_rank(_moved(parents, move))
                trees.append(
                    Tree(name, int(self.closure.ranks[move[root]]), moved, float(weights[number]) / len(group))
                )
        return tuple(trees)


def _moved(parents: Ints, move: Ints) -> Ints:
    """A tree where a symmetry takes it."""
    moved = np.empty_like(parents)
    moved[move] = np.where(parents >= 0, move[np.maximum(parents, 0)], parents)
    return moved
