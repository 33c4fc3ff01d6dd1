"""Divisions: workers in groups, how much can flow into and out of every group, and the division that is narrowest.

A division into k groups is as narrow as (what can flow into all groups together) / (k - 1): every all-reduce moves the tensor
2(k - 1) times into groups (``weft.bounds`` says why). The narrowest of all divisions is found exactly, in two nested searches.

For a guess of the width, the sum of (flow into the group - width) over the groups of a division is smallest for some division;
if that is less than -width, the division is narrower than the guess, and its own width is the next guess (Dinkelbach 1967).
Few guesses are needed. The smallest sum is that of a submodular function over partitions, which a greedy finds with one
minimum cut a worker (Cunningham 1985; Barahona 1992): workers come one by one, each is worth what its cheapest group among those
before it still lacks, and groups that touch each other are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled
from weft.network.cuts import flows_to, layers, max_flow, paired_arcs
from weft.network.routes import Floats, Graph, Ints, Longs

_MOST_GUESSES = 50
_TINY = 1e-12


class _Arcs(NamedTuple):
    """The links, then an arc from a source to every worker in a group, then one from each of these to a sink.

    Arc ``2i`` is the i-th of these, and ``2i + 1`` undoes it; ``links`` is how many links there are.
    """

    start: Longs
    arcs: Longs
    target: Ints
    room: Floats
    """of the links; the others have none yet"""
    workers: Ints
    links: int


def _arcs_of(graph: Graph, ranks: Sequence[int], inward: bool) -> _Arcs:
    """Inward as the links are; for what flows outward all links are reversed. The fastest link has the capacity 1."""
    ends = (graph.source, graph.destination) if inward else (graph.destination, graph.source)
    workers = np.array(ranks, dtype=np.int32)
    n = len(workers)
    tails = np.concatenate([ends[0], np.full(n, graph.nodes), workers]).astype(np.int32)
    heads = np.concatenate([ends[1], workers, np.full(n, graph.nodes + 1)]).astype(np.int32)
    capacity = np.concatenate([graph.bandwidth / graph.bandwidth.max(), np.zeros(2 * n)])
    return _Arcs(*paired_arcs(graph.nodes + 2, tails, heads, capacity), workers, len(graph.source))


class Flows(NamedTuple):
    """For every group: the most that flows into it (or out of it), and which nodes lie on its side of the narrowest cut."""

    capacity: Floats
    inside: NDArray[np.bool_]


def group_flows(graph: Graph, groups: Sequence[Sequence[int]], *, inward: bool) -> Flows:
    """What flows into every group from all others, or out of it to them. In bytes per second."""
    workers = [rank for group in groups for rank in group]
    number = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    capacity, inside = _flows(_arcs_of(graph, workers, inward), number, len(groups))
    return Flows(capacity * graph.bandwidth.max(), inside)


def with_relays(graph: Graph, groups: Sequence[Sequence[int]], relays: Sequence[int]) -> list[list[int]]:
    """The groups, each with the inactive workers on its side of its narrowest cut, then every other one as a group alone."""
    inside = group_flows(graph, groups, inward=True).inside
    joined = [list(group) for group in groups]
    for relay in relays:
        sides = np.flatnonzero(inside[:, relay])
        if len(sides):
            joined[int(sides[0])].append(relay)
        else:
            joined.append([relay])
    return joined


def narrowest_division(graph: Graph, active: Sequence[int], width: float, *, inward: bool = True) -> list[list[int]]:
    """The narrowest division of these workers, if it is narrower than ``width`` (in bytes per second); else one group."""
    arcs = _arcs_of(graph, active, inward)
    guess = width / float(graph.bandwidth.max())
    best = [list(active)]
    for _ in range(_MOST_GUESSES):
        number = _cheapest_division(arcs, guess)
        groups = [[rank for rank, at in zip(active, number, strict=True) if at == g] for g in np.unique(number)]
        if len(groups) < 2:
            break
        capacity, _ = _flows(arcs, np.unique(number, return_inverse=True)[1], len(groups))
        narrower = float(capacity.sum()) / (len(groups) - 1)
        if narrower >= guess * (1 - 1e-9):
            break
        guess, best = narrower, groups
    return best


def narrowest_group(graph: Graph, active: Sequence[int]) -> list[int]:
    """Some of these workers, not all, between which and all others least can flow in one of the directions."""
    first, others = active[0], np.array(active[1:], dtype=np.int32)
    found = []
    for inward in (True, False):
        a = _arcs_of(graph, active, inward)
        capacity, inside = flows_to(a.start, a.arcs, a.target, a.room, first, others, _TINY)
        found.append((float(capacity.min()), inside[int(np.argmin(capacity))]))
    apart = min(found, key=lambda side: side[0])[1]
    return [rank for rank in active if apart[rank]]


@compiled
def _flows(a: _Arcs, number: Longs, groups: int) -> tuple[Floats, NDArray[np.bool_]]:
    """The most that flows into every group and its side of the cut; ``number`` is the group of every worker."""
    n, nodes = len(a.workers), len(a.start) - 1
    found = np.empty(groups)
    inside = np.zeros((groups, nodes), dtype=np.bool_)
    layer = np.empty(nodes, dtype=np.int64)
    queue = np.empty(nodes, dtype=np.int64)
    plenty = 2.0 * a.links + 1.0
    for group in range(groups):
        room = a.room.copy()
        for i in range(n):
            arc = a.links + (n + i if number[i] == group else i)
            room[2 * arc] = plenty
        found[group] = max_flow(a.start, a.arcs, a.target, room, nodes - 2, nodes - 1, _TINY)
        layers(a.start, a.arcs, a.target, room, nodes - 2, layer, queue, _TINY)
        inside[group] = layer < 0
    return found, inside


@compiled
def _cheapest_division(a: _Arcs, width: float) -> Longs:
    """The group of every worker where the sum of (flow into the group - width) is smallest."""
    n, nodes = len(a.workers), len(a.start) - 1
    plenty = 2.0 * a.links + 1.0
    worth = np.zeros(n)
    number = np.arange(n)
    layer = np.empty(nodes, dtype=np.int64)
    queue = np.empty(nodes, dtype=np.int64)
    for i in range(n):
        room = a.room.copy()
        gained = 0.0
        for j in range(n):
            # Later workers stay out of the group of worker i; an earlier one costs, or saves, what it is worth.
            if j > i:
                room[2 * (a.links + j)] = plenty
            elif j == i:
                room[2 * (a.links + n + j)] = plenty
            elif worth[j] < 0:
                room[2 * (a.links + j)] = -worth[j]
            else:
                room[2 * (a.links + n + j)] = worth[j]
                gained += worth[j]
        flow = max_flow(a.start, a.arcs, a.target, room, nodes - 2, nodes - 1, _TINY)
        worth[i] = flow - gained - width
        layers(a.start, a.arcs, a.target, room, nodes - 2, layer, queue, _TINY)
        touched = np.zeros(n, dtype=np.bool_)
        for j in range(i + 1):
            if layer[a.workers[j]] < 0:
                touched[number[j]] = True
        for j in range(i + 1):
            if touched[number[j]]:
                number[j] = i
    return number
