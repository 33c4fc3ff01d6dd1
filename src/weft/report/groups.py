"""Groups: the workers in the order of a picture, those of a region side by side, and the gaps between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.network import Network, RegionTree
from weft.network.regions import region_tree
from weft.report.shapes import Floats, Ints


@dataclass(frozen=True, slots=True)
class Band:
    """A region as the workers from one place of the order to another."""

    name: str
    first: int
    last: int
    inner: int
    """how many regions lie inside one another in it: 0 for a rack"""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """``order[i]`` is the rank at place ``i``; bands are ordered from outer to inner."""

    order: Ints
    bands: tuple[Band, ...]

    @property
    def levels(self) -> int:
        """How many regions lie inside one another at most."""
        return max((band.inner + 1 for band in self.bands), default=0)

    def gaps(self, margin: float) -> Floats:
        """Additional room before every place: none inside a region, a margin for every border that is crossed."""
        before = np.zeros(len(self.order))
        ends, begins = np.zeros(len(before) + 1), np.zeros(len(before) + 1)
        for band in self.bands:
            begins[band.first] = max(begins[band.first], band.inner + 1)
            ends[band.last + 1] = max(ends[band.last + 1], band.inner + 1)
        crossed = begins[:-1] + ends[:-1]
        before[crossed > 0] = margin * (crossed[crossed > 0] + 1)
        before[0] = 0.0
        return before


def groups_of(network: Network) -> Groups:
    """All workers, active or not, by their regions, which are ordered by their lowest ranks."""
    number = network.node_numbers
    numbered = [(region.name, [number[name] for name in region.workers]) for region in network.regions or ()]
    order: list[int] = []
    bands: list[Band] = []
    for member in region_tree(numbered, range(len(network.workers))).members:
        _append(member, order, bands)
    bands.sort(key=lambda band: (-band.inner, band.first))
    return Groups(np.array(order, dtype=np.int64), tuple(bands))


def _append(member: RegionTree | int, order: list[int], bands: list[Band]) -> None:
    if isinstance(member, int):
        order.append(member)
        return
    first = len(order)
    for inner in member.members:
        _append(inner, order, bands)
    bands.append(Band(member.name, first, len(order) - 1, member.levels))
