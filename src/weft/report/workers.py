"""The row of workers at the bottom of a picture: how its nodes look, and where they and their regions are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.network import Network
from weft.report.groups import Band, Groups, groups_of
from weft.report.shapes import REGION_MARGIN, REGION_TEXT, Floats, RegionShape
from weft.report.words import fitting, shortened, text_width

MOST_WIDTH = 18.0
_LINE = 0.19
"""the height of a node with one line of text, and of a region's name"""


@dataclass(frozen=True, slots=True, eq=False)
class WorkerRow:
    """The workers in a row: ``x`` is the middle of each rank, the row begins at 0."""

    groups: Groups
    x: Floats
    labels: tuple[str, ...]
    width: float
    height: float
    pitch: float
    turned: bool
    margin: float
    """between regions that lie inside one another"""

    @property
    def length(self) -> float:
        return float(self.x.max()) + self.pitch / 2

    def extent(self, band: Band) -> tuple[float, float]:
        """Where a region begins and ends."""
        ranks = self.groups.order
        return float(self.x[ranks[band.first]]) - self.pitch / 2, float(self.x[ranks[band.last]]) + self.pitch / 2

    def stretched(self, factor: float) -> WorkerRow:
        """The same row with everything further apart."""
        return replace(self, x=self.x * factor, pitch=self.pitch * factor)


def worker_row(network: Network) -> WorkerRow:
    """Names side by side if they fit into the widest picture, else turned, else left out."""
    groups = groups_of(network)
    names = tuple(map(shortened, network.workers))
    longest = max(map(text_width, names)) + 0.09
    for width, height, turned in ((max(longest, _LINE), _LINE, False), (_LINE - 0.03, max(longest, _LINE), True)):
        row = _row(groups, names, width, height, width + 0.05, turned)
        if row.length <= MOST_WIDTH:
            return row
    none = ("",) * len(names)
    pitch = min(0.12, MOST_WIDTH / len(names))
    pitch = min(pitch, pitch * MOST_WIDTH / _row(groups, none, pitch, pitch, pitch, False).length)
    return _row(groups, none, 0.6 * pitch, 0.6 * pitch, pitch, False)


def _row(groups: Groups, labels: tuple[str, ...], width: float, height: float, pitch: float, turned: bool) -> WorkerRow:
    margin = min(REGION_MARGIN, 3 * pitch)
    x = np.empty(len(labels))
    x[groups.order] = np.cumsum(pitch + groups.gaps(margin)) - pitch / 2
    return WorkerRow(groups, x, labels, width, height, pitch, turned, margin)


def names_height(row: WorkerRow) -> float:
    """The room that the names of regions take below the workers."""
    return row.groups.levels * _LINE


def edge_width(row: WorkerRow) -> float:
    """The room that the borders of regions take beside the workers."""
    return 0.08 + REGION_MARGIN * max(1, row.groups.levels)


def region_shape(row: WorkerRow, band: Band, extent: tuple[float, float], bottom: float, top: float) -> RegionShape:
    """A box around a region, its name at its bottom; ``bottom`` and ``top`` are those of what is in it."""
    out = row.margin * band.inner
    left, right = extent[0] - out, extent[1] + out
    low, high = bottom - _LINE * (band.inner + 1), top + 0.1 * (band.inner + 1)
    outline = np.array([[left, low], [right, low], [right, high], [left, high]])
    label = fitting(band.name, right - left + 2 * row.margin, REGION_TEXT)
    return RegionShape(band.name, label, outline, ((left + right) / 2, low + _LINE / 2 - 0.02), band.inner, row.margin)
