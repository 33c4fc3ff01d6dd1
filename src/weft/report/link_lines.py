"""Links as lines: two for every cable, each to the right of its direction; wider where there is more bandwidth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.network import Network
from weft.report.arcs import ports, row_arcs
from weft.report.curves import straight_curves
from weft.report.shapes import Floats, Ints, Layout

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
    source, destination = (ends.astype(np.int64) for ends in (network.graph.source, network.graph.destination))
    aside = (widths + 0.4 * widths.min()) / 2 / 72
    if layout.circular:
        return straight_curves(layout.at[source], layout.at[destination], aside)
    curves = straight_curves(*_ends_between_rows(layout, source, destination), aside)
    level = np.flatnonzero(inside_a_row(network, layout))
    if len(level):
        up = np.where(layout.row[source[level]] > 0, 1.0, -1.0)
        curves[level] = row_arcs(layout, source[level], destination[level], up, aside[level])
    return curves


def _ends_between_rows(layout: Layout, source: Ints, destination: Ints) -> tuple[Floats, Floats]:
    """Where links begin and end: on the upper or lower edges of their nodes, side by side in the order of the others."""
    up = np.sign(layout.row[destination] - layout.row[source]).astype(np.float64)
    across = layout.at[destination, 0] - layout.at[source, 0]
    sides = np.concatenate([3 * source + up.astype(np.int64), 3 * destination - up.astype(np.int64)])
    places = ports(sides, np.concatenate([across, -across]))
    start, end = (
        layout.at[nodes] + layout.size[nodes] * np.column_stack([0.7 * port, 0.5 * away])
        for nodes, port, away in ((source, places[: len(up)], up), (destination, places[len(up) :], -up))
    )
    return start, end


def inside_a_row(network: Network, layout: Layout) -> NDArray[np.bool_]:
    """Which links join two nodes of one row; none does on a circle."""
    row = np.arange(len(layout.row)) if layout.circular else layout.row
    level: NDArray[np.bool_] = row[network.graph.source] == row[network.graph.destination]
    return level
