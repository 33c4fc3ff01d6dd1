"""RAT: resilient all-reduce trees (Wan et al. 2020), with one aggregator for every region.

Workers send to the aggregator of their region, aggregators to that of the region around them, and so on to the root;
the result comes back the same way. With l levels of regions that is 2(l + 1) dependent steps, and the least that can
cross an uplink. Many trees with different aggregators share the work.

On a network that is the same everywhere all trees carry the same. Elsewhere (which the paper leaves open) their weights
are those that keep the busiest link least busy: min z with, on every link, the trees' bytes on it <= z times its
bandwidth, and all weights together 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.collectives.trees import ABSENT, ROOT, Parents, equal_weights, tree_schedule
from weft.errors import InputError
from weft.linear import minimised
from weft.network import Network, RegionTree
from weft.schedule import Schedule

Picks = dict[int, int]
"""Which member of a region its aggregator comes from, by the identity of the region."""
Weights = Literal["auto", "equal", "lp"]
MOST_TREES = 512
"""How many trees are weighed against each other at most."""
_WHOLE = 1 << 20


def rat(network: Network, trees: int | Literal["all", "balanced"] = "balanced", seed: int = 0, weights: Weights = "auto") -> Schedule:
    """Trees that follow the regions.

    ``trees="balanced"`` makes every worker the root once and every member of a region its aggregator equally often;
    ``"all"`` takes every choice of aggregators, a number draws so many at random (the same for the same seed).
    ``weights="auto"`` solves the linear program where the network is not the same everywhere.
    """
    tree = network.region_tree
    uneven = weights == "lp" or (weights == "auto" and not _same_everywhere(network))
    if weights not in ("auto", "equal", "lp"):
        raise InputError(f"the weights {weights!r} are unknown: use auto, equal or lp")
    if trees == "balanced":
        parents = balanced_trees(network, tree)
        if uneven:
            few = _count(tree) <= MOST_TREES
            parents = all_trees(network, tree) if few else _with_drawn(parents, network, tree, seed)
    elif trees == "all":
        if _count(tree) > 1_000_000 // max(1, len(network.active)):
            raise InputError(f"there are {_count(tree)} trees, too many to use all: give a number or use balanced")
        parents = all_trees(network, tree)
    elif isinstance(trees, int) and trees >= 1:
        parents = drawn_trees(network, tree, trees, seed)
    else:
        raise InputError(f"{trees!r} trees are not possible: use balanced, all or a number of at least 1")
    shares = equal_weights(len(parents))
    if uneven:
        shares = least_busy_weights(network, parents)
        parents, shares = parents[shares > 0], shares[shares > 0]
    return tree_schedule(parents, shares, network.active, "rat")


def _count(region: RegionTree) -> int:
    """The number of all trees: in every region, any member can be its aggregator."""
    return (len(region.regions) + len(region.ranks)) * math.prod(_count(inner) for inner in region.regions)


def _parents(network: Network, region: RegionTree, picks: Picks) -> NDArray[np.int32]:
    """The tree in which the aggregator of each region is that of its picked member."""
    parents = np.full(len(network.workers), ABSENT, dtype=np.int32)

    def aggregator(inside: RegionTree) -> int:
        members = inside.members
        heads = [member if isinstance(member, int) else aggregator(member) for member in members]
        head = heads[picks[id(inside)]]
        parents[heads] = head
        return head

    parents[aggregator(region)] = ROOT
    return parents


def _regions(region: RegionTree) -> Iterator[RegionTree]:
    yield region
    for inner in region.regions:
        yield from _regions(inner)


def all_trees(network: Network, region: RegionTree) -> Parents:
    """Every choice of aggregators."""
    regions = list(_regions(region))
    choices = product(*(range(len(inside.members)) for inside in regions))
    keys = [id(inside) for inside in regions]
    return np.array([_parents(network, region, dict(zip(keys, choice, strict=True))) for choice in choices], dtype=np.int32)


def drawn_trees(network: Network, region: RegionTree, count: int, seed: int) -> Parents:
    """A sample of the trees, the same on every rank for the same seed."""
    draw = np.random.default_rng(seed)
    regions = list(_regions(region))
    rows = [
        _parents(network, region, {id(inside): int(draw.integers(len(inside.members))) for inside in regions})
        for _ in range(count)
    ]
    return np.array(rows, dtype=np.int32)


def balanced_trees(network: Network, region: RegionTree) -> Parents:
    """One tree for every worker as the root; elsewhere the member that has been aggregator least often."""
    used = dict.fromkeys(network.active, 0)
    rows = [_parents(network, region, _picks_towards(region, root, used)[0]) for root in network.active]
    return np.array(rows, dtype=np.int32)


def _picks_towards(region: RegionTree, root: int, used: dict[int, int]) -> tuple[Picks, int]:
    members = region.members
    picks: Picks = {}
    heads: list[int] = []
    chosen = -1
    for i, member in enumerate(members):
        if isinstance(member, int):
            heads.append(member)
        else:
            inner, head = _picks_towards(member, root, used)
            picks |= inner
            heads.append(head)
        if heads[-1] == root:
            chosen = i
    if chosen < 0:
        chosen = min(range(len(heads)), key=lambda i: (used[heads[i]], heads[i]))
    used[heads[chosen]] += 1
    return picks | {id(region): chosen}, heads[chosen]


def _with_drawn(parents: Parents, network: Network, region: RegionTree, seed: int) -> Parents:
    """Balanced trees and as many drawn ones, up to the limit, without repetition."""
    more = drawn_trees(network, region, max(0, min(len(parents), MOST_TREES - len(parents))), seed)
    both = np.concatenate([parents, more.reshape(-1, parents.shape[1])])
    _, first = np.unique(both, axis=0, return_index=True)
    return both[np.sort(first)]


def _same_everywhere(network: Network) -> bool:
    """Whether all workers have links of one rate, all switches too, and all regions of a level are alike."""
    graph = network.graph
    at_worker = (graph.source < graph.workers) | (graph.destination < graph.workers)
    rates = len(np.unique(graph.bandwidth[at_worker])) <= 1 and len(np.unique(graph.bandwidth[~at_worker])) <= 1
    return rates and _even(network.region_tree)


def _even(region: RegionTree) -> bool:
    shapes = {(len(inner.regions), len(inner.ranks)) for inner in region.regions}
    return len(shapes) <= 1 and not (region.regions and region.ranks) and all(map(_even, region.regions))


def tree_loads(network: Network, parents: Parents) -> NDArray[np.float64]:
    """How often the whole chunk of each tree crosses each link: one row a tree, one column a link."""
    tree, rank = np.nonzero(parents >= 0)
    parent = parents[tree, rank]
    sources, destinations = np.concatenate([rank, parent]), np.concatenate([parent, rank])
    pairs, which = np.unique(sources * len(network.workers) + destinations, return_inverse=True)
    routes = network.routes(pairs // len(network.workers), pairs % len(network.workers))
    per_pair = np.zeros((len(pairs), len(network.links)))
    np.add.at(per_pair, (np.repeat(np.arange(len(pairs)), np.diff(routes.start)), routes.links), routes.share)
    loads = np.zeros((len(parents), len(network.links)))
    np.add.at(loads, np.concatenate([tree, tree]), per_pair[which])
    return loads


def least_busy_weights(network: Network, parents: Parents) -> NDArray[np.int64]:
    """The weights that keep the busiest link least busy, as whole numbers."""
    loads = tree_loads(network, parents)
    used = loads.any(axis=0)
    rates = network.graph.bandwidth[used] / network.graph.bandwidth.max()
    matrix = np.vstack([np.column_stack([loads[:, used].T, -rates]), np.append(np.ones(len(parents)), 0.0)])
    cost = np.append(np.zeros(len(parents)), 1.0)
    lower = np.append(np.full(len(rates), -np.inf), 1.0)
    solution = minimised(cost, matrix, lower, np.append(np.zeros(len(rates)), 1.0))
    shares = np.rint(np.maximum(solution.x[:-1], 0.0) * _WHOLE).astype(np.int64)
    return shares if shares.any() else equal_weights(len(parents))
