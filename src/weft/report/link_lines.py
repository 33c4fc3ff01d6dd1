"""Links as lines: two for every cable, each to the right of its direction; wider where there is more bandwidth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.network import Network
from weft.report.arcs import row_arcs
from weft.report.curves import straight_curves
from weft.report.shapes import Floats, Layout

_DENSITY = ((60, 1.5), (200, 1.1), (600, 0.8), (1500, 0.5))
"""up to so many links, the narrowest line is so wide (in points)"""
_LEAST, _MOST_TIMES = 0.3, 2.6


def narrowest(links: int) -> float:
    """The width of the line of the slowest link: less in a picture of many links."""
    return next((width for most, width in _DENSITY if links <= most), _LEAST)


def line_widths(bandwidths: Floats, slowest: float, links: int) -> Floats:
    """In points; every doubling of the bandwidth adds the same."""
    doublings = np.log2(bandwidths / slowest)
    widths: Floats = narrowest(links) * np.minimum(1 + 0.25 * doublings, _MOST_TIMES)
    return widths


def link_curves(network: Network, layout: Layout, widths: Floats) -> Floats:
    """A curve for every link: straight between rows, an arc inside a row, below workers and above switches."""
    graph = network.graph
    aside = (widths + 0.4 * widths.min()) / 2 / 72
    curves = straight_curves(layout.at[graph.source], layout.at[graph.destination], aside)
    level = np.flatnonzero(inside_a_row(network, layout))
    if len(level):
        source, destination = graph.source[level].astype(np.int64), graph.destination[level].astype(np.int64)
        up = np.where(layout.row[source] > 0, 1.0, -1.0)
        curves[level] = row_arcs(layout, source, destination, up, aside[level])
    return curves


def inside_a_row(network: Network, layout: Layout) -> NDArray[np.bool_]:
    """Which links join two nodes of one row; none does on a circle."""
    row = np.arange(len(layout.row)) if layout.circular else layout.row
    level: NDArray[np.bool_] = row[network.graph.source] == row[network.graph.destination]
    return level
