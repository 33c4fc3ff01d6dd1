"""Arcs between nodes that stand in one row, above or below it."""

from __future__ import annotations

import numpy as np

from weft.report.curves import arc_curves
from weft.report.shapes import Floats, Ints, Layout, arc_depth


def row_arcs(layout: Layout, source: Ints, destination: Ints, up: Floats, aside: Floats) -> Floats:
    """A curve from each source to its destination, upwards where ``up`` is 1, downwards where it is -1.

    ``aside`` keeps the two directions apart: each is moved to its right by so much.
    """
    distance = layout.at[destination, 0] - layout.at[source, 0]
    across = np.sign(distance)
    outside = -up * across * aside
    # Short arcs end outside, long ones in the middle: then arcs of one side never cross near a node.
    places = ports(np.concatenate([source, destination]), np.concatenate([1 / distance, -1 / distance]))
    ends = []
    for nodes, port, side in ((source, places[: len(source)], across), (destination, places[len(source) :], -across)):
        right = port * layout.size[nodes, 0] * 0.8 - side * outside
        ends.append(layout.at[nodes] + np.column_stack([right, up * layout.size[nodes, 1] / 2]))
    depth = up * (np.asarray(arc_depth(np.abs(distance))) + outside)
    return arc_curves(ends[0], ends[1], depth)


def ports(nodes: Ints, key: Floats) -> Floats:
    """Where on its node each curve ends, in the order of the keys, from -0.5 at the left to 0.5 at the right."""
    found, which = np.unique(np.column_stack([nodes, np.round(key, 6)]), axis=0, return_inverse=True)
    _, first, count = np.unique(found[:, 0], return_index=True, return_counts=True)
    rank = np.arange(len(found)) - np.repeat(first, count)
    port: Floats = (rank + 0.5) / np.repeat(count, count) - 0.5
    return port[which.ravel()]
