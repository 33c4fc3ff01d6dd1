"""Layout: where the nodes and the regions of a network are in a picture, in inches from the lower left corner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REGION_MARGIN = 0.07
"""how far a region reaches beyond what is in it, and the radius of its corners"""
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

    @property
    def centre(self) -> Floats:
        return np.array([self.width / 2, self.height / 2])


def arc_depth(distance: Floats | float) -> Floats | float:
    """How far an arc between two nodes of one row leaves that row: more for longer ones, never more than 1.1."""
    return 0.1 + 1.0 * distance / (distance + 2.5)
