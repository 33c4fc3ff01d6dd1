"""Few trees: a packing into at most so many pieces, and what it loses against as many as one likes.

Every piece costs a message at each step of a pipeline, so fewer may be faster although links are used less well. To choose
the few out of all pairs of trees is hard; this is a search that starts from several ends and keeps the best:

1. Reroute. Pairs carry fixed parts. One after the other is taken out and put back where links are least loaded: prices grow
   exponentially with the load, and the steeper they are, the more the busiest links count. They get steeper in every pass, and
   after each the parts are set anew by a linear program. Then half of the pairs is thrown out and rerouted, again and again.
2. Exchange. At the prices of that program the cheapest pair is added, and whichever then carries least is dropped.
3. Select. Of all pairs seen so far, those that cost least at these prices go into a mixed-integer program that chooses.
4. Of what takes at most half a percent longer, the shallowest, by another such program.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from weft.errors import InputError
from weft.network import Network
from weft.packing.closure import Closure, Floats, Ints, closure_of
from weft.packing.master import REDUCE
from weft.packing.pack import Packing, pack
from weft.packing.pieces import pieces_of
from weft.packing.pool import Mix, Pool
from weft.packing.pricing import price_all, shallow_tree, tree_cost
from weft.packing.search import Tree
from weft.packing.seeds import seed_trees
from weft.packing.selection import best_few

_STEEPNESS = (3.0, 6.0, 12.0, 24.0, 48.0, 96.0)
_PASSES = 3
_LEAST_PART = 0.3
"""While it is rerouted, a pair carries at least that much of an equal part."""
_PATIENCE = 20
_PART_FOR_DISTURBING = 0.7
"""of the time that is left; the rest is for selecting"""
_MOST_ROOTS = 16
_MOST_TO_SELECT_FROM = 150
_MOST_PIECES = 200
_OPTIMAL = 0.0005
_SHALLOW_LOSS = 0.005
_SHALLOW = (1, 2, 3, 4, 6)
_SECONDS_FOR_SHALLOW = 1.0


def few_trees(network: Network, most: int, *, seconds: float = 10.0) -> Packing:
    """A packing into at most so many pieces; ``loss`` says what that costs, ``quality`` how far it is from the bound."""
    if most < 1:
        raise InputError(f"{most} trees are not possible: at least one is needed")
    begun = time.monotonic()
    packing = pack(network, seconds=seconds / 3)
    pieces = sorted(pieces_of(packing), key=lambda piece: -piece[2])
    if len(pieces) <= most:
        return replace(packing, unlimited=packing.value)
    search = _Search(network, most, packing.value, begun + seconds)
    for up, down, _ in pieces[:_MOST_PIECES]:
        search.heaviest.append(search.pool.add(search.by_node(up), search.by_node(down)))
    best = search.best()
    value = best.value / search.closure.unit
    trees = search.trees(best)
    return Packing(
        trees, value, packing.bound, "pipelined", packing.rounds, time.monotonic() - begun, min(packing.value, value)
    )


class _Search:
    """The best mix so far, and how to find better ones."""

    def __init__(self, network: Network, most: int, unlimited: float, deadline: float) -> None:
        self.most = most
        self.closure: Closure = closure_of(network)
        self.pool = Pool(self.closure)
        self.target = unlimited * self.closure.unit * (1 + _OPTIMAL)
        self.deadline = deadline
        self.draw = np.random.default_rng(0)
        self.heaviest: list[int] = []
        self.node = np.full(self.closure.workers, -1, dtype=np.int32)
        self.node[self.closure.ranks] = np.arange(self.closure.n)
        ways: tuple[dict[int, list[Ints]], dict[int, list[Ints]]] = ({}, {})
        for kind, root, parents in seed_trees(network, self.closure):
            ways[0 if kind == REDUCE else 1].setdefault(root, []).append(parents)
        self.seeds = [self.pool.add(*pair) for root in ways[0] for pair in product(ways[0][root], ways[1][root])]

    def by_node(self, tree: Tree) -> Ints:
        """The parents of a tree over nodes instead of ranks."""
        above = tree.parents[self.closure.ranks]
        found: Ints = np.where(above >= 0, self.node[np.maximum(above, 0)], above).astype(np.int32)
        return found

    def done(self, mix: Mix) -> bool:
        return mix.value <= self.target or time.monotonic() > self.deadline

    def best(self) -> Mix:
        single = min(range(len(self.pool.pairs)), key=self.pool.alone)
        best = min(self.pool.mixed(tuple(self.heaviest[: self.most])), self.pool.mixed((single,)), key=_slowness)
        for start in ([], [single] * self.most, self.heaviest[: self.most]):
            best = self.rerouted(list(start), best, _STEEPNESS)
        best = self.disturbed(best)
        best = self.exchanged(best)
        if not self.done(best):
            order = np.argsort(self.pool.loads @ best.prices, kind="stable")[:_MOST_TO_SELECT_FROM]
            among = sorted({*order.tolist(), *best.chosen})
            left = self.deadline - time.monotonic()
            best = min(best, best_few(self.pool, among, self.most, best, left), key=_slowness)
        return self.shallower(self.pool.mixed(best.chosen))

    def disturbed(self, best: Mix) -> Mix:
        """Half of the best pairs thrown out and the rest rerouted, again and again, until that helps no more."""
        pause = time.monotonic() + _PART_FOR_DISTURBING * (self.deadline - time.monotonic())
        failures = 0
        while failures < _PATIENCE and self.most > 1 and not self.done(best) and time.monotonic() < pause:
            kept = [number for number in best.chosen if self.draw.random() < 0.5]
            found = self.rerouted(kept, best, _STEEPNESS[2:])
            failures = 0 if found.value < best.value * (1 - 1e-6) else failures + 1
            best = found
        return best

    def rerouted(self, chosen: list[int], best: Mix, steepnesses: Sequence[float]) -> Mix:
        """The best mix on the way from these pairs, or from none, as prices get steeper."""
        mix: Mix | None = self.pool.mixed(tuple(chosen)) if chosen else None
        for steepness in steepnesses:
            for _ in range(_PASSES):
                if self.done(best):
                    return best
                chosen = self.once_around(chosen, mix, steepness)
                mix = self.pool.mixed(tuple(chosen))
                best = min(best, mix, key=_slowness)
        return best

    def once_around(self, chosen: list[int], mix: Mix | None, steepness: float) -> list[int]:
        """Every pair taken out and put back, or put in for the first time."""
        known = dict(zip(mix.chosen, mix.parts.tolist(), strict=True)) if mix else {}
        parts = np.full(self.most, 1.0 / self.most)
        for i, number in enumerate(chosen):
            parts[i] = max(known.get(number, 0.0) / chosen.count(number), _LEAST_PART / self.most)
        parts /= parts.sum()
        load = np.zeros(len(self.closure.bandwidth))
        for i, number in enumerate(chosen):
            load += parts[i] * self.pool.loads[number]
        value = mix.value if mix else max(self.target, 1e-12)
        for i in range(self.most):
            own = parts[i] * self.pool.loads[chosen[i]] if i < len(chosen) else np.zeros_like(load)
            load -= own
            prices = _steep_prices((load + 0.5 * own) / self.closure.bandwidth / value, steepness)
            candidates = self.cheap_pairs(prices / self.closure.bandwidth) + chosen[i : i + 1]
            # With this one pair put in, which of them leaves the busiest links least busy?
            after = (load + parts[i] * self.pool.loads[candidates]) / self.closure.bandwidth / value
            pick = candidates[int(np.argmin(_smooth_maximum(after, steepness)))]
            chosen[i : i + 1] = [pick]
            load += parts[i] * self.pool.loads[pick]
        return chosen

    def cheap_pairs(self, prices: Floats) -> list[int]:
        """New pairs that are cheap at these prices, and the cheapest known ones."""
        costs = self.closure.costs(prices)
        active = self.closure.active
        roots = np.sort(self.draw.choice(active, min(active, _MOST_ROOTS), replace=False)).astype(np.int32)
        up, up_least = price_all(np.ascontiguousarray(costs.T), active, roots)
        down, down_least = price_all(costs, active, roots)
        found: list[int] = []
        for i in np.argsort(up_least + down_least, kind="stable")[:2].tolist():
            found += [self.pool.add(a, b) for a, b in ((up[i], down[i]), (up[i], up[i]), (down[i], down[i]))]
        known = np.argsort(self.pool.loads @ prices, kind="stable")[:3]
        return list(dict.fromkeys([*found, *known.tolist()]))

    def exchanged(self, best: Mix) -> Mix:
        """Pairs added at the program's prices, the lightest dropped, as long as that helps."""
        better = True
        while better and not self.done(best):
            better = False
            for pair in self.cheap_pairs(best.prices + 1e-6 / self.closure.bandwidth):
                more = self.pool.mixed((*best.chosen, pair))
                heavy = np.argsort(-more.parts, kind="stable")[: self.most]
                fewer = self.pool.mixed(tuple(more.chosen[i] for i in heavy))
                if fewer.value < best.value * (1 - 1e-6):
                    best, better = fewer, True
        return best

    def shallower(self, best: Mix) -> Mix:
        """The shallowest mix that is found among those that take at most half a percent longer."""
        self.add_shallow(best.prices)
        # Pairs that cost more than the mix at its own prices would mostly make it slower. Prices are not unique, though.
        costs = self.pool.loads @ best.prices
        cheap = np.flatnonzero(costs <= best.value * (1 + 4 * _SHALLOW_LOSS)).tolist()
        among = set(best.chosen)
        for some in (cheap, self.heaviest):
            among.update(sorted(some, key=lambda i: (self.pool.depths[i], costs[i]))[: _MOST_TO_SELECT_FROM // 2])
        return best_few(
            self.pool, sorted(among), self.most, best, _SECONDS_FOR_SHALLOW, best.value * (1 + _SHALLOW_LOSS)
        )

    def add_shallow(self, prices: Floats) -> None:
        costs = self.closure.costs(prices + 1e-6 / self.closure.bandwidth)
        both = costs + costs.T
        for depth, root in product(_SHALLOW, range(min(self.closure.active, _MOST_ROOTS))):
            tree = shallow_tree(both, self.closure.active, root, depth)
            if np.isfinite(tree_cost(both, tree)):
                self.pool.add(tree, tree)

    def trees(self, mix: Mix) -> tuple[Tree, ...]:
        """The trees of a mix, shallow ones first."""
        found: list[Tree] = []
        order = sorted(range(len(mix.chosen)), key=lambda i: (self.pool.depths[mix.chosen[i]], -mix.parts[i]))
        for i in order:
            part = float(mix.parts[i])
            if part <= 1e-9:
                continue
            for kind, parents in zip(("reduce", "broadcast"), self.pool.pairs[mix.chosen[i]], strict=True):
                ranks = self.closure.by_rank(parents)
                found.append(Tree(kind, int(np.flatnonzero(ranks == -1)[0]), ranks, part))
        return tuple(found)


def _slowness(mix: Mix) -> float:
    return mix.value


def _steep_prices(business: Floats, steepness: float) -> Floats:
    prices: Floats = np.exp(steepness * (business - business.max()))
    return np.maximum(prices, 1e-9)


def _smooth_maximum(business: Floats, steepness: float) -> Floats:
    """Of every row nearly the maximum, so that what is below it counts a little."""
    top = business.max(axis=1)
    smooth: Floats = top + np.log(np.exp(steepness * (business - top[:, None])).sum(axis=1)) / steepness
    return smooth
