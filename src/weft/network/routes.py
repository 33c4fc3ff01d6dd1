"""Routes: the shortest way from one node to another, as arrays.

The shortest route passes through the fewest other workers (workers compute; they forward only where there is no other
way) and, among those, over the fewest links. Where several are equally short, ``pinned`` routing picks one at every
node by a hash of source, destination and node, as switches that balance flows do, always the same one; ``split``
routing divides the bytes evenly at every node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

_THROUGH_A_WORKER = 1 << 20


class Graph(NamedTuple):
    """A network's links as arrays; nodes are numbers, workers first."""

    workers: int
    nodes: int
    source: Ints
    destination: Ints
    bandwidth: Floats
    latency: Floats


class Routes(NamedTuple):
    """Routes of many pairs: pair ``i`` uses ``links[start[i]:start[i + 1]]``, each for ``share`` of its bytes."""

    start: Longs
    links: Ints
    share: Floats
    latency: Floats


def routes_between(graph: Graph, sources: Ints, destinations: Ints, *, split: bool) -> Routes:
    """The route of every pair; all of them exist, because a network is checked to be connected."""
    out_start, order = _grouped(graph.source, graph.nodes)
    in_start, back = _grouped(graph.destination, graph.nodes)
    by_destination = np.argsort(destinations, kind="stable")
    start, links, share = _all_routes(
        graph.workers, graph.nodes, graph.source, graph.destination, order, out_start, back, in_start,
        sources, destinations, by_destination, split,
    )  # fmt: skip
    pair = np.repeat(np.arange(len(sources)), np.diff(start))
    latency = np.bincount(pair, weights=share * graph.latency[links], minlength=len(sources))
    return Routes(start, links, share, latency.astype(np.float64))


def distances_between_workers(graph: Graph) -> Longs:
    """A square of distances, source by destination, in the measure that routes minimise."""
    in_start, back = _grouped(graph.destination, graph.nodes)
    return _worker_distances(graph.workers, graph.nodes, graph.source, back, in_start)


def _grouped(ends: Ints, nodes: int) -> tuple[Longs, Ints]:
    """The links of every node: ``order[start[n]:start[n + 1]]``."""
    start = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=nodes), out=start[1:])
    return start, np.argsort(ends, kind="stable").astype(np.int32)


@compiled
def _hash(a: int, b: int, c: int) -> np.uint64:
    x = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F) + np.uint64(c)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def _distances(
    target: int,
    workers: int,
    source: Ints,
    back: Ints,
    in_start: Longs,
    distance: Longs,
    queue: Ints,
    queued: NDArray[np.bool_],
) -> None:
    """Fill in every node's distance to the target: links, plus a large toll for every worker on the way."""
    nodes = len(distance)
    distance[:] = np.iinfo(np.int64).max
    distance[target] = 0
    queue[0] = target
    head, waiting = 0, 1
    while waiting > 0:
        node = queue[head]
        head = (head + 1) % nodes
        waiting -= 1
        queued[node] = False
        step = distance[node] + 1
        if node < workers and node != target:
            step += _THROUGH_A_WORKER
        for i in range(in_start[node], in_start[node + 1]):
            before = source[back[i]]
            if step < distance[before]:
                distance[before] = step
                if not queued[before]:
                    queued[before] = True
                    queue[(head + waiting) % nodes] = before
                    waiting += 1


@compiled
def _all_routes(
    workers: int, nodes: int, source: Ints, destination: Ints, order: Ints, out_start: Longs, back: Ints, in_start: Longs,
    sources: Ints, destinations: Ints, by_destination: Longs, split: bool,
) -> tuple[Longs, Ints, Floats]:  # fmt: skip
    pairs = len(sources)
    begin = np.zeros(pairs, dtype=np.int64)
    length = np.zeros(pairs, dtype=np.int64)
    pool_links = np.empty(max(16, 4 * pairs), dtype=np.int32)
    pool_share = np.empty(max(16, 4 * pairs), dtype=np.float64)
    used = 0
    distance = np.empty(nodes, dtype=np.int64)
    queue = np.empty(nodes, dtype=np.int32)
    queued = np.zeros(nodes, dtype=np.bool_)
    part = np.zeros(nodes, dtype=np.float64)
    target = -1
    for i in by_destination:
        if destinations[i] != target:
            target = destinations[i]
            _distances(target, workers, source, back, in_start, distance, queue, queued)
        if used + len(source) > len(pool_links):
            size = 2 * len(pool_links) + len(source)
            grown_links, grown_share = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.float64)
            grown_links[:used], grown_share[:used] = pool_links[:used], pool_share[:used]
            pool_links, pool_share = grown_links, grown_share
        begin[i] = used
        queue[0] = sources[i]
        part[sources[i]] = 1.0
        head, tail = 0, 1
        while head < tail:
            node = queue[head]
            head += 1
            if node == target:
                continue
            # Distance falls by at least one on every link, so nodes must be visited from far to near to be complete.
            best = 0
            for j in range(out_start[node], out_start[node + 1]):
                after = destination[order[j]]
                toll = _THROUGH_A_WORKER if after < workers and after != target else 0
                if distance[after] != np.iinfo(np.int64).max and distance[after] + 1 + toll == distance[node]:
                    best += 1
            pick = np.int64(_hash(sources[i], target, node) % np.uint64(best)) if not split else np.int64(-1)
            seen = 0
            for j in range(out_start[node], out_start[node + 1]):
                after = destination[order[j]]
                toll = _THROUGH_A_WORKER if after < workers and after != target else 0
                if distance[after] == np.iinfo(np.int64).max or distance[after] + 1 + toll != distance[node]:
                    continue
                if split or seen == pick:
                    share = part[node] / best if split else 1.0
                    pool_links[used], pool_share[used] = order[j], share
                    used += 1
                    if part[after] == 0.0:
                        queue[tail] = after
                        tail += 1
                        k = tail - 1
                        while k > head and distance[queue[k - 1]] < distance[queue[k]]:
                            queue[k - 1], queue[k] = queue[k], queue[k - 1]
                            k -= 1
                    part[after] += share
                seen += 1
        for k in range(tail):
            part[queue[k]] = 0.0
        length[i] = used - begin[i]
    start = np.zeros(pairs + 1, dtype=np.int64)
    for i in range(pairs):
        start[i + 1] = start[i] + length[i]
    links = np.empty(used, dtype=np.int32)
    shares = np.empty(used, dtype=np.float64)
    for i in range(pairs):
        for k in range(length[i]):
            links[start[i] + k] = pool_links[begin[i] + k]
            shares[start[i] + k] = pool_share[begin[i] + k]
    return start, links, shares


@compiled
def _worker_distances(workers: int, nodes: int, source: Ints, back: Ints, in_start: Longs) -> Longs:
    square = np.empty((workers, workers), dtype=np.int64)
    distance = np.empty(nodes, dtype=np.int64)
    queue = np.empty(nodes, dtype=np.int32)
    queued = np.zeros(nodes, dtype=np.bool_)
    for target in range(workers):
        _distances(target, workers, source, back, in_start, distance, queue, queued)
        square[:, target] = distance[:workers]
    return square
