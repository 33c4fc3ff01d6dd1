"""Idle workers that are alike count as one.

Two inactive workers are alike if swapping them leaves a network of direct links as it is. A whole class of them can be made one
relay whose links are as fast as all of theirs together, and the best packing of trees stays exactly as fast:

- Trees of the merged network can be spread over the members of each class, so often that every member takes turns with every
  member of the class next to it; every link then carries its even share of what the merged link carried.
- A tree of the network becomes a connected set of merged links, which contains a tree that uses no link more.

Few relays are what the packing's oracle can try in all combinations: three of sixteen GPUs active leave thirteen idle ones, but
only one class a machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import lcm

import numpy as np
from numpy.typing import NDArray

from weft.network import Link, Network, Region
from weft.packing.pack import Packing

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Merged:
    """A network in which every class of idle workers is one; ``members[i]`` are the ranks that worker ``i`` stands for."""

    network: Network
    members: tuple[tuple[int, ...], ...]
    workers: int
    """how many there were"""

    def spread(self, packing: Packing) -> Packing:
        """A packing of the merged network as one of the network: every tree over all members of its relays."""
        trees = []
        for tree in packing.trees:
            turns = self._turns(tree.parents)
            for parents in turns:
                root = self.members[tree.root][0]
                trees.append(replace(tree, root=root, parents=parents, weight=tree.weight / len(turns)))
        return replace(packing, trees=tuple(trees))

    def _turns(self, parents: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        """The tree over different members; neighbours are like digits of a number that counts up, so all pairs come as often."""
        used = np.flatnonzero(parents > -2).tolist()
        stride: dict[int, int] = {}
        for node in sorted(used, key=lambda node: _depth(parents, node)):
            above = int(parents[node])
            chained = above >= 0 and len(self.members[above]) > 1
            stride[node] = stride[above] * len(self.members[above]) if chained else 1
        found = []
        for turn in range(lcm(*(stride[node] * len(self.members[node]) for node in used))):
            place = {node: self.members[node][turn // stride[node] % len(self.members[node])] for node in used}
            ranks = np.full(self.workers, -2, dtype=np.int32)
            for node, rank in place.items():
                ranks[rank] = place[int(parents[node])] if parents[node] >= 0 else parents[node]
            found.append(ranks)
        return found


def _depth(parents: NDArray[np.int32], node: int) -> int:
    return 0 if parents[node] < 0 else 1 + _depth(parents, int(parents[node]))


def merged(network: Network) -> Merged:
    """The network with its idle workers merged; it must consist of direct links, and latencies are left out."""
    assert not network.switches, "only direct links can be merged"
    rates = _rates(network)
    groups = [(rank,) for rank in network.active] + _classes(network, rates)
    names = tuple(network.workers[group[0]] for group in groups)
    links = tuple(
        Link(names[a], names[b], float(rates[np.ix_(groups[a], groups[b])].sum()))
        for a, b in product(range(len(groups)), repeat=2)
        if a != b and rates[groups[a][0], groups[b][0]] > 0
    )
    active = set(names[: len(network.active)])
    regions = [Region(r.name, tuple(w for w in r.workers if w in active)) for r in network.regions or ()]
    kept = tuple(region for region in regions if 1 < len(region.workers) < len(active))
    inactive = names[len(network.active) :]
    small = Network(names, links, (), kept, inactive, name=f"{network.name}, idle workers merged")
    return Merged(small, tuple(groups), len(network.workers))


def _rates(network: Network) -> Floats:
    """The rate from every worker to every other, 0 where there is no link."""
    graph = network.graph
    rates = np.zeros((graph.workers, graph.workers))
    rates[graph.source, graph.destination] = graph.bandwidth
    return rates


def _classes(network: Network, rates: Floats) -> list[tuple[int, ...]]:
    """The idle workers' classes: being alike is transitive, so each is compared with the first of a class alone."""
    classes: list[list[int]] = []
    for rank in (network.node_numbers[name] for name in network.inactive):
        own = next((members for members in classes if _alike(rates, members[0], rank)), None)
        if own is None:
            classes.append([rank])
        else:
            own.append(rank)
    return [tuple(members) for members in classes]


def _alike(rates: Floats, a: int, b: int) -> bool:
    others = np.ones(len(rates), dtype=np.bool_)
    others[[a, b]] = False
    same = (rates[a, others] == rates[b, others]).all() and (rates[others, a] == rates[others, b]).all()
    return bool(same and rates[a, b] == rates[b, a])
