"""Symmetries: permutations of the workers that leave the network as it is.

Where a network has them, a packing may be averaged over all of them without getting slower. So links that are mapped to each
other can share one row of the program and one price, and trees are needed only from one root of every orbit: an 8 x 8 mesh has
eight symmetries, and machines of GPUs as many as there are GPUs.

Candidates are rotations of the regions and of the workers in them, and, for networks of direct links, maps that are fixed by
where three workers go. A candidate counts only if it maps every route onto a route, link by link, with the same rates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, permutations

import numpy as np
from numpy.typing import NDArray

from weft.network import Network, RegionTree
from weft.network.routes import distances_between_workers
from weft.packing.closure import Closure, Ints

_LARGEST_GROUP = 4096
_MOST_WORKERS_FOR_THREE = 300


@dataclass(frozen=True, eq=False)
class Symmetry:
    """A group of permutations of the closure's nodes, and what it makes one: rows of links, and orbits of workers."""

    group: tuple[Ints, ...]
    row: Ints
    """of every link: the number of its orbit"""
    size: NDArray[np.int64]
    """of every row: how many links it stands for"""
    roots: Ints
    """one worker of every orbit of the active workers"""


def no_symmetry(closure: Closure, roots: Ints) -> Symmetry:
    """Every link by itself, trees from these roots alone."""
    links = np.arange(len(closure.bandwidth), dtype=np.int32)
    return Symmetry((np.arange(closure.n, dtype=np.int32),), links, np.ones(len(links), dtype=np.int64), roots)


def symmetry_of(network: Network, closure: Closure) -> Symmetry:
    """The symmetries that are found; only the identity, if there are none or some workers are inactive."""
    identity = np.arange(closure.n, dtype=np.int32)
    links = np.arange(len(closure.bandwidth))
    generators: list[tuple[Ints, NDArray[np.int64]]] = []
    if closure.active == closure.n and closure.n > 2:
        for candidate in _candidates(network, identity):
            moved = _moved_links(closure, candidate)
            if moved is not None:
                generators.append((candidate, moved))
    group = _closed([identity, *(nodes for nodes, _ in generators)])
    while len(group) > _LARGEST_GROUP:
        generators.pop()
        group = _closed([identity, *(nodes for nodes, _ in generators)])
    row = orbits(links, [moved for _, moved in generators])
    worker_orbit = orbits(identity, [nodes.astype(np.int64) for nodes, _ in generators])
    roots = np.unique(worker_orbit[: closure.active], return_index=True)[1].astype(np.int32)
    return Symmetry(tuple(group), row, np.bincount(row), roots)


def _candidates(network: Network, identity: Ints) -> Iterator[Ints]:
    place = {rank: i for i, rank in enumerate(network.active)}
    yield from _rotations(network.region_tree, place, identity)
    yield np.roll(identity, 1)
    if not network.switches and len(identity) <= _MOST_WORKERS_FOR_THREE:
        yield from _fixed_by_three(distances_between_workers(network.graph))


def _rotations(region: RegionTree, place: dict[int, int], identity: Ints) -> Iterator[Ints]:
    """At every level: the members of all regions of that level move on by one."""
    levels: list[list[RegionTree]] = [[region]]
    while levels[-1]:
        levels.append([inner for outer in levels[-1] for inner in outer.regions])
    for level in levels:
        moved = identity.copy()
        for outer in level:
            groups = [[place[r] for r in ((m,) if isinstance(m, int) else m.workers)] for m in outer.members]
            if len({len(group) for group in groups}) != 1:
                break
            for group, following in zip(groups, groups[1:] + groups[:1], strict=True):
                moved[group] = following
        else:
            if level and (moved != identity).any():
                yield moved


def _fixed_by_three(distance: NDArray[np.int64]) -> Iterator[Ints]:
    """Maps that are determined by the images of three workers whose distances tell all workers apart."""
    n = len(distance)
    trios = chain([_far_apart(distance)], permutations(range(min(n, 12)), 3))
    base = next((trio for trio in trios if _tells_apart(distance, trio)), None)
    if base is None:
        return
    known = {tuple(distance[list(base), v]): v for v in range(n)}
    between = distance[np.ix_(base, base)]
    for first in range(n):
        for second in np.flatnonzero(distance[first] == between[0, 1]):
            for third in np.flatnonzero((distance[first] == between[0, 2]) & (distance[second] == between[1, 2])):
                images = np.array([first, second, third])
                seen = [known.get(tuple(row)) for row in distance[images].T]
                if None not in seen and len(set(seen)) == n:
                    back = np.array(seen, dtype=np.int32)
                    if (back != np.arange(n)).any():
                        yield np.argsort(back).astype(np.int32)


def _far_apart(distance: NDArray[np.int64]) -> tuple[int, int, int]:
    """A worker at the edge of the network, the one farthest from it, and the one farthest from both."""
    first = int(np.argmax(distance[0]))
    second = int(np.argmax(distance[first]))
    return first, second, int(np.argmax(np.minimum(distance[first], distance[second])))


def _tells_apart(distance: NDArray[np.int64], trio: tuple[int, int, int]) -> bool:
    return len({tuple(distance[list(trio), v]) for v in range(len(distance))}) == len(distance)


def _moved_links(closure: Closure, nodes: Ints) -> NDArray[np.int64] | None:
    """Where a permutation of the nodes takes every link, or nothing if it is no symmetry."""
    n, routes = closure.n, closure.routes
    pair = (nodes[:, None].astype(np.int64) * n + nodes[None, :]).reshape(-1)
    joined = closure.joined.reshape(-1)
    lengths = np.where(joined, np.diff(routes.start), 0)
    if (lengths != lengths[pair]).any():
        return None
    used = lengths > 0
    offset = np.arange(int(lengths[used].sum())) - np.repeat(np.cumsum(lengths[used]) - lengths[used], lengths[used])
    here = np.repeat(routes.start[:-1][used], lengths[used]) + offset
    there = np.repeat(routes.start[pair][used], lengths[used]) + offset
    images = routes.links[there].astype(np.int64)
    moved = np.arange(len(closure.bandwidth))
    moved[routes.links[here]] = images
    same = (moved[routes.links[here]] == images).all() and (routes.share[here] == routes.share[there]).all()
    bijective = len(np.unique(moved)) == len(moved)
    return moved if same and bijective and np.allclose(closure.bandwidth[moved], closure.bandwidth) else None


def _closed(generators: list[Ints]) -> list[Ints]:
    """All products of the generators; not all of them if there are more than the limit."""
    found = {generators[0].tobytes(): generators[0]}
    waiting = [generators[0]]
    while waiting and len(found) <= _LARGEST_GROUP:
        here = waiting.pop()
        for generator in generators[1:]:
            product = generator[here]
            if product.tobytes() not in found:
                found[product.tobytes()] = product
                waiting.append(product)
    return list(found.values())


def orbits(items: NDArray[np.integer], maps: list[NDArray[np.int64]]) -> Ints:
    """The number of the orbit of every item under some permutations."""
    orbit = np.arange(len(items))
    while True:
        before = orbit.copy()
        for image in maps:
            low = np.minimum(orbit, orbit[image])
            np.minimum.at(low, image, orbit)
            orbit = np.minimum(low, orbit[low])
        if (orbit == before).all():
            return np.unique(orbit, return_inverse=True)[1].astype(np.int32)
