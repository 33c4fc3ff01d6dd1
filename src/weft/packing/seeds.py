"""Trees to begin with: chains around the network and stars; where not all workers are joined, spanning trees."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from weft.network import Network
from weft.packing.arborescence import cheapest_tree
from weft.packing.closure import Closure, Ints
from weft.packing.master import BROADCAST, REDUCE
from weft.packing.pricing import pruned

ROOT, ABSENT = -1, -2
_MOST_ROOTS = 64


def seed_trees(network: Network, closure: Closure) -> Iterator[tuple[int, int, Ints]]:
    """Kind, root and parents of each, in the numbering of the closure."""
    if not closure.all_joined:
        yield from _spanning(closure)
        return
    order = network.region_tree.in_order()
    node = {int(rank): i for i, rank in enumerate(closure.ranks)}
    ring = [node[rank] for rank in order]
    n = len(ring)
    for at, root in enumerate(ring):
        yield REDUCE, root, _chain(closure.n, [ring[(at + 1 + i) % n] for i in range(n)])
        yield BROADCAST, root, _chain(closure.n, [ring[(at - 1 - i) % n] for i in range(n)])
        star = np.full(closure.n, ABSENT, dtype=np.int32)
        star[ring] = root
        star[root] = ROOT
        yield REDUCE, root, star
        yield BROADCAST, root, star.copy()


def broadcast_seeds(closure: Closure, root: int) -> Iterator[tuple[int, int, Ints]]:
    """Broadcast trees from one root: the cheapest; in a full mesh also, for every other worker, one in which it serves the rest.

    There these are the best packing, and prices would find them one by one.
    """
    yield BROADCAST, root, cheapest_tree(closure.costs(1.0 / closure.bandwidth), root)
    hops = np.diff(closure.routes.start).reshape(closure.n, closure.n)
    for first in range(closure.n):
        if first != root and hops.max() == 1:
            tree = np.full(closure.n, first, dtype=np.int32)
            tree[first], tree[root] = root, ROOT
            yield BROADCAST, root, tree


def _spanning(closure: Closure) -> Iterator[tuple[int, int, Ints]]:
    """A tree from every root, or from some if there are many, along links; relays as far as they are needed."""
    costs = closure.costs(1.0 / closure.bandwidth)
    for root in range(0, closure.active, 1 + closure.active // _MOST_ROOTS):
        yield BROADCAST, root, pruned(cheapest_tree(costs, root), closure.active)
        yield REDUCE, root, pruned(cheapest_tree(np.ascontiguousarray(costs.T), root), closure.active)


def _chain(nodes: int, order: list[int]) -> Ints:
    """Every node in the order under the one behind it; the last is the root."""
    parents = np.full(nodes, ABSENT, dtype=np.int32)
    for here, following in pairwise(order):
        parents[here] = following
    parents[order[-1]] = ROOT
    return parents
