"""How much each of many trees should carry, where a network is not the same everywhere.

All trees are at the same step at about the same time: leaves to aggregators, aggregators to the next ones, and back.
How long a step takes is the load of its busiest link. Steps of different trees overlap in part, so the busiest link of
all steps together counts too, though less. A linear program minimises

    sum over steps p of z_p  +  0.3 z        with   load_p(w) <= z_p b,  sum of load_p(w) <= z b,  sum of w = 1

on every link of bandwidth b, over the trees' weights w. It has many near-optimal solutions, and its corners use few
trees, which pipeline badly: among those within 1% of the best, a second program takes the one whose largest weight is
smallest. (Minimising z alone was tried: it came out slower than equal weights. See docs/log.md.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.collectives.trees import ROOT, Parents, tree_depths
from weft.linear import minimised
from weft.network import Network

_WHOLE = 1 << 20
_OVERLAP = 0.3
_NEAR = 1.01

Loads = NDArray[np.float64]
"""How often the chunk of each tree crosses each link: one row a tree, one column a link."""


def fastest_weights(network: Network, parents: Parents) -> NDArray[np.int64]:
    """The weights as whole numbers; trees that carry nothing have 0."""
    steps = step_loads(network, parents)
    loads = [*steps, np.sum(steps, axis=0)]
    price = np.array([1.0] * len(steps) + [_OVERLAP])
    rates = network.graph.bandwidth / network.graph.bandwidth.max()
    trees, times = len(parents), len(loads)
    limits = [_limits(load, rates, trees, times, k) for k, load in enumerate(loads)]
    whole = np.concatenate([np.ones(trees), np.zeros(times + 1)])
    matrix = np.vstack([*limits, whole])
    lower = np.append(np.full(len(matrix) - 1, -np.inf), 1.0)
    upper = np.append(np.zeros(len(matrix) - 1), 1.0)
    cost = np.concatenate([np.zeros(trees), price, [0.0]])
    best = minimised(cost, matrix, lower, upper)
    below_largest = np.hstack([np.eye(trees), np.zeros((trees, times)), np.full((trees, 1), -1.0)])
    even = minimised(
        np.append(np.zeros(trees + times), 1.0),
        np.vstack([matrix, cost, below_largest]),
        np.concatenate([lower, np.full(1 + trees, -np.inf)]),
        np.concatenate([upper, [best.value * _NEAR], np.zeros(trees)]),
    )
    shares = np.rint(np.maximum(even.x[:trees], 0.0) * _WHOLE).astype(np.int64)
    assert shares.any()
    smallest: NDArray[np.int64] = shares // np.gcd.reduce(shares)
    return smallest


def _limits(load: Loads, rates: NDArray[np.float64], trees: int, times: int, k: int) -> NDArray[np.float64]:
    """Rows that say: the weighted load on every used link is at most the k-th time by its rate."""
    used = np.flatnonzero(load.any(axis=0))
    rows = np.zeros((len(used), trees + times + 1))
    rows[:, :trees] = load[:, used].T
    rows[:, trees + k] = -rates[used]
    return rows


def step_loads(network: Network, parents: Parents) -> list[Loads]:
    """The loads of every step: from the deepest level up to the roots, and back down."""
    depth = tree_depths(parents)
    steps: list[Loads] = []
    for level in range(int(depth.max(initial=0)), 0, -1):
        steps.append(_loads(network, np.where(depth == level, parents, ROOT), upwards=True))
    for level in range(1, int(depth.max(initial=0)) + 1):
        steps.append(_loads(network, np.where(depth == level, parents, ROOT), upwards=False))
    return steps


def _loads(network: Network, parents: Parents, upwards: bool) -> Loads:
    tree, rank = np.nonzero(parents >= 0)
    parent = parents[tree, rank].astype(np.int64)
    sources, destinations = (rank, parent) if upwards else (parent, rank)
    pairs, which = np.unique(sources * len(network.workers) + destinations, return_inverse=True)
    routes = network.routes(pairs // len(network.workers), pairs % len(network.workers))
    per_pair = np.zeros((len(pairs), len(network.links)))
    np.add.at(per_pair, (np.repeat(np.arange(len(pairs)), np.diff(routes.start)), routes.links), routes.share)
    loads = np.zeros((len(parents), len(network.links)))
    np.add.at(loads, tree, per_pair[which])
    return loads
