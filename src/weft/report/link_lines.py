"""Links as lines: two for every cable, each to the right of its direction; wider where there is more bandwidth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.network import Graph, Network
from weft.report.curves import arc_curves, straight_curves
from weft.report.shapes import Floats, Ints, Layout, arc_depth

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
    """A curve for every link: straight between rows, an arc inside a row."""
    graph = network.graph
    aside = (widths / 2 + 0.3 * narrowest(len(widths))) / 72
    curves = straight_curves(layout.at[graph.source], layout.at[graph.destination], aside)
    level = np.flatnonzero(inside_a_row(network, layout))
    if len(level):
        curves[level] = _arcs(graph, layout, level, aside[level])
    return curves


def inside_a_row(network: Network, layout: Layout) -> NDArray[np.bool_]:
    """Which links join two nodes of one row; none does on a circle."""
    row = np.arange(len(layout.row)) if layout.circular else layout.row
    level: NDArray[np.bool_] = row[network.graph.source] == row[network.graph.destination]
    return level


def _arcs(graph: Graph, layout: Layout, links: Ints, aside: Floats) -> Floats:
    """Arcs below workers and above switches."""
    source, destination = graph.source[links], graph.destination[links]
    distance = layout.at[destination, 0] - layout.at[source, 0]
    up = np.where(layout.row[source] > 0, 1.0, -1.0)
    # Of a cable's two arcs the one that keeps to the right of its direction lies outside below and inside above.
    across = np.sign(distance)
    outside = -up * across * aside
    ports = _ports(np.concatenate([source, destination]), np.concatenate([1 / distance, -1 / distance]))
    ends = []
    for nodes, port, side in ((source, ports[: len(links)], across), (destination, ports[len(links) :], -across)):
        right = port * layout.size[nodes, 0] * 0.8 - side * outside
        ends.append(layout.at[nodes] + np.column_stack([right, up * layout.size[nodes, 1] / 2]))
    depth = up * (arc_depth(np.abs(distance)) + outside)
    return arc_curves(ends[0], ends[1], depth)


def _ports(nodes: NDArray[np.int32], key: Floats) -> Floats:
    """Where on its node each arc ends, from -0.5 at the left to 0.5 at the right.

    The key is one over the distance to the other node: short arcs end outside, long ones in the middle, so that arcs of
    one side never cross near the node.
    """
    found, which = np.unique(np.column_stack([nodes, np.round(key, 6)]), axis=0, return_inverse=True)
    _, first, count = np.unique(found[:, 0], return_index=True, return_counts=True)
    rank = np.arange(len(found)) - np.repeat(first, count)
    port: Floats = (rank + 0.5) / np.repeat(count, count) - 0.5
    return port[which.ravel()]
