"""Spanning trees from one root, packed into the links between some workers, as Blink does inside a machine.

The packing is fractional and found by column generation: the program's prices say which links are contended, the
cheapest tree at these prices is the one to add, and when none costs less than 1 the packing is the best there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.linear import minimised
from weft.network import Network
from weft.packing.arborescence import cheapest_tree

_ROUNDS = 100
_GAP = 0.01
_SMALLEST_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class SpanningTree:
    """``parents[i]`` is the position of the parent of the i-th worker, -1 at the root; ``rate`` in bytes per second."""

    parents: tuple[int, ...]
    rate: float


def spanning_trees(network: Network, ranks: Sequence[int], root: int) -> list[SpanningTree]:
    """Trees over these workers from the one at position ``root``; what each carries in proportion to its rate."""
    n = len(ranks)
    u, v = (side.reshape(-1) for side in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    routes = network.routes(np.array(ranks)[u[u != v]], np.array(ranks)[v[u != v]])
    used, link = np.unique(routes.links, return_inverse=True)
    usage = np.zeros((n * n, len(used)))
    np.add.at(usage, (np.repeat(np.flatnonzero(u != v), np.diff(routes.start)), link), routes.share)
    bandwidth = network.graph.bandwidth[used]
    capacity = bandwidth / bandwidth.max()
    prices = 1.0 / capacity
    trees: list[tuple[int, ...]] = []
    rates = np.zeros(0)
    for _ in range(_ROUNDS):
        cost = (usage @ prices).reshape(n, n)
        parents = tuple(cheapest_tree(cost, root).tolist())
        if parents in trees or (trees and _tree_cost(cost, parents) > 1 - _GAP):
            break
        trees.append(parents)
        columns = [usage[[p * n + i for i, p in enumerate(tree) if p >= 0]].sum(axis=0) for tree in trees]
        solution = minimised(-1.0, np.array(columns).T, -np.inf, capacity)
        rates, prices = solution.x, np.maximum(0.0, -solution.prices)
    kept = rates >= _SMALLEST_SHARE * rates.sum()
    return [
        SpanningTree(tree, float(rate * bandwidth.max()))
        for tree, rate, keep in zip(trees, rates, kept, strict=True)
        if keep
    ]


def _tree_cost(cost: np.ndarray, parents: tuple[int, ...]) -> float:
    return float(sum(cost[parent, i] for i, parent in enumerate(parents) if parent >= 0))
