"""The cheapest reduce and broadcast tree of every root, at given prices of links.

Where every worker is active that is a minimum arborescence, exactly. Inactive workers make it a Steiner tree: they may
relay where that is cheaper. For a few of them every set of relays is tried. For more, a tree over the active workers alone is
improved by taking in relays one by one, and what the cheapest tree costs at the least is bounded by dual ascent (Wong 1984).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled
from weft.packing.arborescence import cheapest_tree
from weft.packing.closure import Floats, Ints

Flags = NDArray[np.bool_]
ABSENT = -2
FEW_RELAYS = 6
"""Up to so many inactive workers, every set of them is tried as relays;"""
_MOST_STEPS = 4e6
"""and more in a small network, where it takes at most about so many steps a root."""


@compiled
def tree_cost(costs: Floats, parents: Ints) -> float:
    """What a tree away from its root costs."""
    total = 0.0
    for v in range(len(parents)):
        if parents[v] >= 0:
            total += costs[parents[v], v]
    return total


@compiled
def _over(costs: Floats, chosen: Ints, root: int) -> Ints:
    """The cheapest tree over some nodes, as parents of all nodes."""
    n, m = len(costs), len(chosen)
    small = np.empty((m, m))
    at = 0
    for i in range(m):
        if chosen[i] == root:
            at = i
        for j in range(m):
            small[i, j] = costs[chosen[i], chosen[j]] if i != j else np.inf
    inner = cheapest_tree(small, at)
    parents = np.full(n, ABSENT, dtype=np.int32)
    for i in range(m):
        parents[chosen[i]] = chosen[inner[i]] if inner[i] >= 0 else -1
    return parents


@compiled
def pruned(parents: Ints, active: int) -> Ints:
    """Without relays that pass nothing on."""
    n = len(parents)
    while True:
        children = np.zeros(n, dtype=np.int32)
        for v in range(n):
            if parents[v] >= 0:
                children[parents[v]] += 1
        gone = False
        for v in range(active, n):
            if parents[v] >= 0 and children[v] == 0:
                parents[v] = ABSENT
                gone = True
        if not gone:
            return parents


@compiled
def cheap_tree(costs: Floats, active: int, root: int) -> tuple[Ints, float]:
    """A cheap tree that spans the active nodes, the cheapest if there are no others; relays are taken in greedily."""
    chosen = np.arange(active).astype(np.int32)
    best = _over(costs, chosen, root)
    least = tree_cost(costs, best)
    better = active < len(costs)
    while better:
        better = False
        pick = -1
        for relay in range(active, len(costs)):
            if (chosen == relay).any():
                continue
            with_relay = np.append(chosen, np.int32(relay)).astype(np.int32)
            tree = pruned(_over(costs, with_relay, root), active)
            cost = tree_cost(costs, tree)
            if cost < least * (1 - 1e-9):
                best, least, pick = tree, cost, relay
        if pick >= 0:
            chosen = np.append(chosen, np.int32(pick)).astype(np.int32)
            better = True
    return best, least


@compiled
def cheapest_with_relays(costs: Floats, active: int, root: int) -> tuple[Ints, float]:
    """The cheapest tree that spans the active nodes and any set of the others."""
    n = len(costs)
    best, least = _over(costs, np.arange(active).astype(np.int32), root), np.inf
    for relays in range(1 << (n - active)):
        chosen = np.empty(n, dtype=np.int32)
        count = 0
        for v in range(n):
            if v < active or (relays >> (v - active)) & 1:
                chosen[count] = v
                count += 1
        tree = _over(costs, chosen[:count], root)
        cost = tree_cost(costs, tree)
        if cost < least * (1 - 1e-12):
            best, least = tree, cost
    return pruned(best, active), least


@compiled
def _reaching(reduced: Floats, terminal: int, inside: Flags, stack: Ints) -> int:
    """Mark every node from which a terminal is reached over edges that cost nothing any more; how many there are."""
    inside[:] = False
    inside[terminal] = True
    stack[0] = terminal
    depth, size = 1, 1
    while depth > 0:
        depth -= 1
        v = stack[depth]
        for u in range(len(reduced)):
            if not inside[u] and reduced[u, v] <= 1e-12:
                inside[u] = True
                stack[depth] = u
                depth += 1
                size += 1
    return size


@compiled
def least_cost(costs: Floats, active: int, root: int) -> float:
    """A lower bound on what any tree that spans the active nodes costs: dual ascent on cuts."""
    n = len(costs)
    reduced = costs.copy()
    for v in range(n):
        reduced[v, v] = np.inf
    total = 0.0
    inside = np.zeros(n, dtype=np.bool_)
    stack = np.empty(n, dtype=np.int32)
    finished = np.zeros(active, dtype=np.bool_)
    finished[root] = True
    while True:
        smallest, pick = n + 1, -1
        for terminal in range(active):
            if finished[terminal]:
                continue
            size = _reaching(reduced, terminal, inside, stack)
            if inside[root]:
                finished[terminal] = True
            elif size < smallest:
                smallest, pick = size, terminal
        if pick < 0:
            return total
        _reaching(reduced, pick, inside, stack)
        step = np.inf
        for u in range(n):
            for v in range(n):
                if not inside[u] and inside[v]:
                    step = min(step, reduced[u, v])
        for u in range(n):
            for v in range(n):
                if not inside[u] and inside[v]:
                    reduced[u, v] = max(0.0, reduced[u, v] - step)
        total += step


@compiled
def price_all(costs: Floats, active: int, roots: Ints) -> tuple[Ints, Floats]:
    """For every root: a cheap tree away from it, and what any such tree costs at the least."""
    n = len(costs)
    trees = np.empty((len(roots), n), dtype=np.int32)
    least = np.empty(len(roots))
    exact = n - active <= FEW_RELAYS or 2.0 ** (n - active) * n**3 <= _MOST_STEPS
    for i in range(len(roots)):
        if exact:
            trees[i], least[i] = cheapest_with_relays(costs, active, roots[i])
        else:
            trees[i], _ = cheap_tree(costs, active, roots[i])
            least[i] = least_cost(costs, active, roots[i])
    return trees, least


@compiled
def shallow_tree(costs: Floats, active: int, root: int, most: int) -> Ints:
    """A cheap tree over the active nodes of limited depth, grown node by node."""
    n = len(costs)
    parents = np.full(n, ABSENT, dtype=np.int32)
    depth = np.full(n, n, dtype=np.int32)
    parents[root], depth[root] = -1, 0
    cheapest = np.empty(active)
    through = np.full(active, root, dtype=np.int32)
    for v in range(active):
        cheapest[v] = costs[root, v]
    for _ in range(active - 1):
        pick = -1
        for v in range(active):
            if parents[v] == ABSENT and (pick < 0 or cheapest[v] < cheapest[pick]):
                pick = v
        parents[pick], depth[pick] = through[pick], depth[through[pick]] + 1
        if depth[pick] < most:
            for v in range(active):
                if parents[v] == ABSENT and costs[pick, v] < cheapest[v]:
                    cheapest[v], through[v] = costs[pick, v], pick
    return parents


@compiled
def tree_depth(parents: Ints) -> int:
    """How far the farthest node is from the root."""
    deepest = 0
    for v in range(len(parents)):
        here, depth = v, 0
        while parents[here] >= 0:
            here = parents[here]
            depth += 1
        deepest = max(deepest, depth)
    return deepest
