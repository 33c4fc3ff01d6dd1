"""Rows: how high every switch stands above the workers, and which workers are below it.

A switch stands by its distance from the workers, counted in links. Of switches that are equally far, one stands above
another if it reaches over it (in a BCube, a switch of level 1 joins workers of several switches of level 0), or if it
joins more of them (a core switch with a worker of its own).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.network import Graph
from weft.report.shapes import Ints


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The row of every node, 0 for workers, and the first and last place of a worker below it."""

    row: Ints
    first: Ints
    last: Ints


def rows_of(graph: Graph, place: Ints) -> Rows:
    """``place`` is where each worker stands in the order of the picture."""
    source, destination = _both_ends(graph)
    hops = _hops(graph, source, destination)
    first, last = _spans(graph, place, hops, source, destination)
    row = np.zeros(graph.nodes, dtype=np.int64)
    height = 1
    for hop in range(1, int(hops.max()) + 1):
        switches = np.flatnonzero(hops == hop)
        steps = _steps(switches, first, last, source, destination)
        row[switches] = height + steps
        height += int(steps.max()) + 1
    return Rows(row, *_spans(graph, place, row, source, destination))


def _both_ends(graph: Graph) -> tuple[Ints, Ints]:
    """Every cable in both directions."""
    return (
        np.concatenate([graph.source, graph.destination]).astype(np.int64),
        np.concatenate([graph.destination, graph.source]).astype(np.int64),
    )


def _hops(graph: Graph, source: Ints, destination: Ints) -> Ints:
    """How many links lie between every node and the nearest worker; a switch without any is one hop away."""
    hops = np.full(graph.nodes, -1, dtype=np.int64)
    hops[: graph.workers] = 0
    distance = 0
    while True:
        reached = destination[(hops[source] == distance) & (hops[destination] < 0)]
        if not len(reached):
            break
        distance += 1
        hops[reached] = distance
    hops[hops < 0] = 1
    return hops


def _spans(graph: Graph, place: Ints, row: Ints, source: Ints, destination: Ints) -> tuple[Ints, Ints]:
    """The outermost places that each node reaches by going down only; all of them where there is no way down."""
    first = np.full(graph.nodes, graph.workers, dtype=np.int64)
    last = np.full(graph.nodes, -1, dtype=np.int64)
    first[: graph.workers] = last[: graph.workers] = place
    for height in range(1, int(row.max(initial=0)) + 1):
        down = (row[source] == height) & (row[destination] < height)
        np.minimum.at(first, source[down], first[destination[down]])
        np.maximum.at(last, source[down], last[destination[down]])
    nowhere = last < 0
    first[nowhere], last[nowhere] = 0, graph.workers - 1
    return first, last


def _steps(switches: Ints, first: Ints, last: Ints, source: Ints, destination: Ints) -> Ints:
    """How far each of these equally distant switches stands above the lowest of them."""
    number = np.full(int(max(source.max(), destination.max(), switches.max())) + 1, -1, dtype=np.int64)
    number[switches] = np.arange(len(switches))
    inside = (number[source] >= 0) & (number[destination] >= 0)
    pairs = np.unique(np.column_stack([number[source[inside]], number[destination[inside]]]), axis=0)
    joined = np.bincount(pairs[:, 0], minlength=len(switches))
    low, high = first[switches], last[switches]
    steps = np.zeros(len(switches), dtype=np.int64)
    done = np.zeros(len(switches), dtype=np.bool_)
    for i in np.lexsort((high - low, joined)).tolist():
        beneath = done & _reached_over(low, high, i)
        neighbours = pairs[pairs[:, 0] == i, 1]
        beneath[neighbours] |= done[neighbours] & (joined[neighbours] < joined[i])
        steps[i] = steps[beneath].max(initial=-1) + 1
        done[i] = True
    return steps


def _reached_over(low: Ints, high: Ints, i: int) -> NDArray[np.bool_]:
    """Which spans lie inside span ``i`` and are at most half as wide."""
    inside: NDArray[np.bool_] = (low >= low[i]) & (high <= high[i]) & (2 * (high - low) < high[i] - low[i])
    return inside
