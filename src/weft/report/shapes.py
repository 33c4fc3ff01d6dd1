"""Layout: where the nodes and the regions of a network are in a picture, in inches from the lower left corner."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REGION_MARGIN = 0.07
"""how far a region reaches beyond what is in it, at most"""
REGION_TEXT = 7.0


@dataclass(frozen=True, slots=True, eq=False)
class RegionShape:
    """The background of a region: a polygon with corners to be rounded, and its name."""

    name: str
    label: str
    """the name as far as there is room for it"""
    outline: Floats
    """one corner a row"""
    label_at: tuple[float, float]
    inner: int
    """how many regions lie inside one another in it: 0 for a rack"""
    rounding: float
    """the radius of the corners, which is also how far the shape reaches beyond its outline"""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A place for every node, workers first, and a shape for every region, larger ones first."""

    width: float
    height: float
    at: Floats
    """the centres of the nodes, one node a row"""
    size: Floats
    """width and height of every node"""
    row: Ints
    """0 for workers, from 1 upwards for switches; 0 for all on a circle"""
    labels: tuple[str, ...]
    """the text in every node; empty where there is no room"""
    turned: NDArray[np.bool_]
    """whether the text of a node runs upwards"""
    regions: tuple[RegionShape, ...]
    circular: bool
    left: float = 0.0
    """where the picture of the network begins in a larger one"""

    def moved(self, right: float, up: float) -> Layout:
        """The same elsewhere in the picture."""
        by = np.array([right, up])
        regions = tuple(
            replace(region, outline=region.outline + by, label_at=(region.label_at[0] + right, region.label_at[1] + up))
            for region in self.regions
        )
        return replace(self, at=self.at + by, regions=regions, left=self.left + right)


def arc_depth(distance: Floats | float) -> Floats | float:
    """How far an arc between two nodes of one row leaves that row: more for longer ones, never more than 1.2."""
    return 0.12 + 1.1 * distance / (distance + 2.2)
