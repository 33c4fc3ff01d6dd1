"""RAT: resilient all-reduce trees (Wan et al. 2020), with one aggregator for every region.

Workers send to the aggregator of their region, aggregators to that of the region around them, and so on to the root;
the result comes back the same way. With l levels of regions that is 2(l + 1) dependent steps, and the least that can
cross an uplink. Many trees with different aggregators share the work.

On a network that is the same everywhere all trees carry the same. Elsewhere, which the paper leaves open, a linear
program weighs them: see ``tree_weights``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.collectives.tree_weights import fastest_weights
from weft.collectives.trees import ABSENT, ROOT, Parents, equal_weights, tree_schedule
from weft.errors import InputError
from weft.network import Network, RegionTree
from weft.schedule import Schedule

Picks = dict[int, int]
"""Which member of a region its aggregator comes from, by the identity of the region."""
Weights = Literal["auto", "equal", "lp"]
MOST_WEIGHED = 1024
"""Up to so many trees, all of them are weighed against each other."""
LARGEST_PROGRAM = 1_000_000
"""Trees times links; beyond, ``auto`` weighs all trees alike, because the program would take minutes."""


def rat(
    network: Network, trees: int | Literal["all", "balanced"] = "balanced", seed: int = 0, weights: Weights = "auto"
) -> Schedule:
    """Trees that follow the regions.

    ``trees="balanced"`` makes every worker the root once and every member of a region its aggregator equally often;
    ``"all"`` takes every choice of aggregators, a number draws so many at random (the same for the same seed).
    ``weights="auto"`` solves the linear program where the network is not the same everywhere.
    """
    if weights not in ("auto", "equal", "lp"):
        raise InputError(f"the weights {weights!r} are unknown: use auto, equal or lp")
    small = len(network.active) * len(network.links) <= LARGEST_PROGRAM
    weighed = weights == "lp" or (weights == "auto" and small and not _same_everywhere(network))
    parents = _chosen(network, network.region_tree, trees, seed, weighed)
    shares = equal_weights(len(parents))
    if weighed and len(parents) > 1:
        shares = fastest_weights(network, parents)
        parents, shares = parents[shares > 0], shares[shares > 0]
    return tree_schedule(parents, shares, network.active, "rat")


def _chosen(network: Network, tree: RegionTree, trees: int | str, seed: int, weighed: bool) -> Parents:
    count = _count(tree)
    if trees == "balanced":
        return all_trees(network, tree) if weighed and count <= MOST_WEIGHED else balanced_trees(network, tree)
    if trees == "all":
        if count > 1_000_000 // max(1, len(network.active)):
            raise InputError(f"there are {count} trees, too many to use all: give a number or use balanced")
        return all_trees(network, tree)
    if isinstance(trees, int) and trees >= 1:
        return drawn_trees(network, tree, trees, seed)
    raise InputError(f"{trees!r} trees are not possible: use balanced, all or a number of at least 1")


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
    return np.array(
        [_parents(network, region, dict(zip(keys, choice, strict=True))) for choice in choices], dtype=np.int32
    )


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


def _same_everywhere(network: Network) -> bool:
    """Whether all workers have links of one rate, all switches too, and all regions of a level are alike."""
    graph = network.graph
    at_worker = (graph.source < graph.workers) | (graph.destination < graph.workers)
    rates = len(np.unique(graph.bandwidth[at_worker])) <= 1 and len(np.unique(graph.bandwidth[~at_worker])) <= 1
    return rates and _even(network.region_tree)


def _even(region: RegionTree) -> bool:
    shapes = {(len(inner.regions), len(inner.ranks)) for inner in region.regions}
    return len(shapes) <= 1 and not (region.regions and region.ranks) and all(map(_even, region.regions))
