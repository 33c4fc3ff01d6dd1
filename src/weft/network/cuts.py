"""Cuts: the most that can flow from one set of nodes to another, in bytes per second."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled
from weft.network.routes import Floats, Graph, Ints, Longs


def cut_capacity(graph: Graph, sources: Sequence[int], sinks: Sequence[int] | None = None) -> float:
    """The narrowest cut between two sets of nodes; without ``sinks``, from these workers to all other workers."""
    inside = set(sources)
    others = [rank for rank in range(graph.workers) if rank not in inside] if sinks is None else list(sinks)
    if not others or not inside:
        return float("inf")
    # One more node at each side, joined to its set by links that never fill.
    left, right = graph.nodes, graph.nodes + 1
    tails = np.concatenate([graph.source, np.full(len(inside), left), np.array(others)]).astype(np.int32)
    heads = np.concatenate([graph.destination, np.array(sorted(inside)), np.full(len(others), right)]).astype(np.int32)
    plenty = float(graph.bandwidth.sum()) * 2 + 1
    capacity = np.concatenate([graph.bandwidth, np.full(len(inside) + len(others), plenty)])
    start, arcs, target, room = paired_arcs(graph.nodes + 2, tails, heads, capacity)
    return float(max_flow(start, arcs, target, room, left, right, plenty * 1e-12))


def paired_arcs(nodes: int, tails: Ints, heads: Ints, capacity: Floats) -> tuple[Longs, Longs, Ints, Floats]:
    """Arcs and their reverses, so that arc ``2i + 1`` undoes arc ``2i``, with every node's arcs listed."""
    ends = np.stack([tails, heads], axis=1).reshape(-1)
    target = np.stack([heads, tails], axis=1).reshape(-1)
    room = np.stack([capacity, np.zeros_like(capacity)], axis=1).reshape(-1)
    arcs = np.argsort(ends, kind="stable")
    start = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=nodes), out=start[1:])
    return start, arcs, target.astype(np.int32), room


@compiled
def layers(
    start: Longs, arcs: Longs, target: Ints, room: Floats, source: int, layer: Longs, queue: Longs, tiny: float
) -> None:
    """How many arcs with room every node is away from the source; -1 where none leads to it."""
    layer[:] = -1
    layer[source] = 0
    queue[0] = source
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        for i in range(start[node], start[node + 1]):
            arc = arcs[i]
            if room[arc] > tiny and layer[target[arc]] < 0:
                layer[target[arc]] = layer[node] + 1
                queue[tail] = target[arc]
                tail += 1


@compiled
def max_flow(start: Longs, arcs: Longs, target: Ints, room: Floats, source: int, sink: int, tiny: float) -> float:
    """The most that flows from source to sink (Dinic's algorithm); what room is left is written into ``room``."""
    nodes = len(start) - 1
    layer = np.empty(nodes, dtype=np.int64)
    queue = np.empty(nodes, dtype=np.int64)
    following = np.empty(nodes, dtype=np.int64)
    path = np.empty(nodes, dtype=np.int64)
    total = 0.0
    while True:
        layers(start, arcs, target, room, source, layer, queue, tiny)
        if layer[sink] < 0:
            return total
        following[:] = start[:-1]
        depth = 0
        node = source
        while True:
            if node == sink:
                amount = np.inf
                for i in range(depth):
                    amount = min(amount, room[path[i]])
                for i in range(depth):
                    room[path[i]] -= amount
                    room[path[i] ^ 1] += amount
                total += amount
                depth, node = 0, source
                continue
            while following[node] < start[node + 1]:
                arc = arcs[following[node]]
                if room[arc] > tiny and layer[target[arc]] == layer[node] + 1:
                    break
                following[node] += 1
            if following[node] < start[node + 1]:
                path[depth] = arcs[following[node]]
                depth += 1
                node = target[path[depth - 1]]
            elif depth == 0:
                break
            else:
                depth -= 1
                node = target[path[depth] ^ 1]
                following[node] += 1


@compiled
def flows_to(
    start: Longs, arcs: Longs, target: Ints, room: Floats, source: int, sinks: Ints, tiny: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """For each of several sinks: the most that flows there from the source, and which nodes the cut leaves on its side."""
    nodes = len(start) - 1
    found = np.empty(len(sinks))
    inside = np.empty((len(sinks), nodes), dtype=np.bool_)
    layer = np.empty(nodes, dtype=np.int64)
    queue = np.empty(nodes, dtype=np.int64)
    for i in range(len(sinks)):
        left = room.copy()
        found[i] = max_flow(start, arcs, target, left, source, sinks[i], tiny)
        layers(start, arcs, target, left, source, layer, queue, tiny)
        inside[i] = layer < 0
    return found, inside
