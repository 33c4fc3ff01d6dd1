"""The cheapest tree that reaches every node from a root, on a dense square of costs, in O(n²).

Edmonds' algorithm in the form of Gabow, Galil, Spencer and Tarjan (1986): grow a path backwards along cheapest incoming
edges; when it meets itself, contract the cycle; when it meets what is attached to the root, start anew; at the end
open the contracted cycles from the outside in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


@compiled
def cheapest_tree(cost: Floats, root: int) -> Ints:
    """The parent of every node, -1 for the root. ``cost[u, v]`` is that of an edge from u to v; infinite where none is."""
    n = len(cost)
    most = 2 * n
    incoming = np.full((most, n), np.inf)
    head = np.full((most, n), -1, dtype=np.int32)
    for v in range(n):
        for u in range(n):
            incoming[v, u] = cost[u, v]
            head[v, u] = v
    component = np.arange(n)
    inside = np.full(most, -1)
    tail_of = np.full(most, -1)
    head_of = np.full(most, -1)
    attached = np.zeros(most, dtype=np.bool_)
    on_path = np.zeros(most, dtype=np.bool_)
    attached[root] = True
    path = np.empty(most, dtype=np.int64)
    count = n
    for start in range(n):
        length = 0
        here = component[start]
        while not attached[here]:
            path[length] = here
            length += 1
            on_path[here] = True
            best = -1
            for u in range(n):
                if component[u] != here and (best < 0 or incoming[here, u] < incoming[here, best]):
                    best = u
            tail_of[here], head_of[here] = best, head[here, best]
            least = incoming[here, best]
            if least < np.inf:
                for u in range(n):
                    incoming[here, u] -= least
            before = component[best]
            if on_path[before] and not attached[before]:
                new = count
                count += 1
                while True:
                    length -= 1
                    member = path[length]
                    on_path[member] = False
                    inside[member] = new
                    for u in range(n):
                        if incoming[member, u] < incoming[new, u] or head[new, u] < 0:
                            incoming[new, u], head[new, u] = incoming[member, u], head[member, u]
                    if member == before:
                        break
                for u in range(n):
                    if inside[component[u]] == new:
                        component[u] = new
                here = new
            else:
                here = before
        for i in range(length):
            attached[path[i]] = True
            on_path[path[i]] = False
    for node in range(count - 1, n - 1, -1):
        member = head_of[node]
        while inside[member] != node:
            member = inside[member]
        tail_of[member], head_of[member] = tail_of[node], head_of[node]
    parents = tail_of[:n].astype(np.int32)
    parents[root] = -1
    return parents
