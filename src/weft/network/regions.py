"""Regions: how they nest, and how they are inferred where a file names none.

Workers that are close to each other (counted in links) and far from all others form a group; a group is a region if
its way out is narrower than its workers together, that is, if its uplink is oversubscribed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.network.cuts import cut_capacity
from weft.network.routes import Graph, distances_between_workers


@dataclass(frozen=True)
class RegionTree:
    """A region and what is directly in it: smaller regions and workers (their ranks). The root is the whole network."""

    name: str
    regions: tuple[RegionTree, ...]
    ranks: tuple[int, ...]
    """workers that are in this region and in none of ``regions``"""

    @cached_property
    def workers(self) -> tuple[int, ...]:
        """All ranks inside, in rank order."""
        inside = list(self.ranks)
        for region in self.regions:
            inside += region.workers
        return tuple(sorted(inside))

    @property
    def levels(self) -> int:
        """How many regions lie inside one another at most, without the root: 1 for racks, 2 for pods of racks."""
        return max((1 + region.levels for region in self.regions), default=0)

    @cached_property
    def members(self) -> tuple[RegionTree | int, ...]:
        """What is directly inside, ordered by lowest rank."""
        return tuple(sorted([*self.regions, *self.ranks], key=first_rank))

    def in_order(self) -> list[int]:
        """The ranks, one region after the other."""
        order: list[int] = []
        for member in self.members:
            order += [member] if isinstance(member, int) else member.in_order()
        return order

    def leaves(self) -> tuple[tuple[int, ...], ...]:
        """The workers by their innermost region; those in no region stand alone."""
        groups = [region.leaves() if region.regions else (region.workers,) for region in self.regions]
        flat = [group for some in groups for group in some] + [(rank,) for rank in self.ranks]
        return tuple(sorted(flat))

    def at_level(self, level: int) -> tuple[tuple[int, ...], ...]:
        """The workers by their region at a level: 0 for the outermost regions, 1 for those inside these, ..."""
        if level == 0:
            return tuple(sorted([region.workers for region in self.regions] + [(rank,) for rank in self.ranks]))
        inner = [group for region in self.regions for group in region.at_level(level - 1)]
        return tuple(sorted(inner + [(rank,) for rank in self.ranks]))


def first_rank(member: RegionTree | int) -> int:
    """The lowest rank of a region, or the rank itself."""
    return member if isinstance(member, int) else member.workers[0]


def region_tree(regions: Sequence[tuple[str, Sequence[int]]], active: Sequence[int]) -> RegionTree:
    """The nested regions of the active workers. Regions that are left with one worker or with all of them vanish."""
    present = set(active)
    sets: dict[frozenset[int], str] = {}
    for name, ranks in regions:
        inside = frozenset(present.intersection(ranks))
        if 1 < len(inside) < len(present):
            sets.setdefault(inside, name)
    return _tree("network", frozenset(present), sorted(sets.items(), key=lambda item: (-len(item[0]), min(item[0]))))


def _tree(name: str, inside: frozenset[int], candidates: list[tuple[frozenset[int], str]]) -> RegionTree:
    """Candidates are ordered from large to small, so that the first of every branch is its outermost."""
    children: list[RegionTree] = []
    free = inside
    for ranks, region in candidates:
        if ranks <= free:
            within = [(inner, label) for inner, label in candidates if inner < ranks]
            children.append(_tree(region, ranks, within))
            free -= ranks
    return RegionTree(name, tuple(sorted(children, key=first_rank)), tuple(sorted(free)))


def inferred_regions(graph: Graph, workers: int) -> list[tuple[str, list[int]]]:
    """Names and ranks of the regions that the links imply, from small to large."""
    if workers < 3:
        return []
    distances = distances_between_workers(graph)
    regions: list[tuple[str, list[int]]] = []
    seen: set[tuple[int, ...]] = set()
    for radius in np.unique(distances[distances > 0])[:-1]:
        groups = _components(distances <= radius)
        if len(groups) == 1:
            break
        for group in groups:
            if 1 < len(group) < workers and tuple(group) not in seen and _oversubscribed(graph, group):
                seen.add(tuple(group))
                regions.append((f"region {len(regions)}", group))
    return regions


def _components(close: NDArray[np.bool_]) -> list[list[int]]:
    """Groups of workers that are joined by chains of close pairs."""
    left = np.ones(len(close), dtype=bool)
    groups: list[list[int]] = []
    for start in range(len(close)):
        if not left[start]:
            continue
        inside = np.zeros(len(close), dtype=bool)
        inside[start] = True
        edge = inside
        while edge.any():
            edge = (close[edge].any(axis=0) | close[:, edge].any(axis=1)) & ~inside
            inside = inside | edge
        left &= ~inside
        groups.append([int(rank) for rank in np.flatnonzero(inside)])
    return groups


def _oversubscribed(graph: Graph, group: list[int]) -> bool:
    """Whether the way out of a group is narrower than its workers together."""
    together = float(graph.bandwidth[np.isin(graph.source, group)].sum())
    return cut_capacity(graph, group) < together * (1 - 1e-9)
