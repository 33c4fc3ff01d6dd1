"""Layers: workers at the bottom, switches in rows above them, each in the middle of what is below it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.network import Network
from weft.report.groups import Band
from weft.report.rows import Rows, rows_of
from weft.report.shapes import Floats, Ints, Layout, RegionShape, arc_depth
from weft.report.spacing import spaced
from weft.report.words import shortened, text_width
from weft.report.workers import MOST_WIDTH, WorkerRow, edge_width, names_height, region_shape, worker_row

_SWITCH_HEIGHT = 0.2
_BETWEEN = 0.08
_DOT = 0.07
_EDGE = 0.12
_FEW_WIDTH, _FEW_PITCH = 5.6, 0.65
"""the width to which a picture of few workers is stretched, and how far apart these may be"""


def layered_layout(network: Network) -> Layout:
    """All nodes of a network with switches."""
    row = worker_row(network)
    place = np.empty(len(network.workers), dtype=np.int64)
    place[row.groups.order] = np.arange(len(place))
    rows = rows_of(network.graph, place)
    labels, widths = _switch_labels(network, rows)
    row = row.stretched(max(min(_FEW_WIDTH / row.length, _FEW_PITCH / row.pitch), _stretch(row, rows, widths)))
    x = _columns(network, row, rows, widths)
    size = np.column_stack([widths, np.where(widths > _DOT, _SWITCH_HEIGHT, widths)])
    size[: len(place)] = row.width, row.height
    edge = edge_width(row)
    left, right = _edges(row, x, size)
    arcs = _arcs_below(network, x)
    ground = _EDGE + names_height(row) + arcs + row.height / 2
    y = _heights(rows, ground + row.height / 2, right - left)
    y[: len(place)] = ground
    at = np.column_stack([x - left + edge, y])
    regions = _regions(row, rows, at, size, ground - row.height / 2 - arcs, edge - left)
    width = right - left + 2 * edge
    turned = np.arange(len(x)) < (len(place) if row.turned else 0)
    height = float(y.max()) + _arcs_above(network, at, rows.row) + 0.2
    return Layout(width, height, at, size, rows.row, row.labels + labels, turned, regions, circular=False)


def row_layout(network: Network, above: float, below: float) -> Layout:
    """The workers alone, with room above and below for what happens between them."""
    row = worker_row(network)
    count, edge = len(network.workers), edge_width(row)
    ground = _EDGE + names_height(row) + below + row.height / 2
    at = np.column_stack([row.x + edge, np.full(count, ground)])
    low, high = ground - row.height / 2 - below, ground + row.height / 2 + above
    moved = [(band, (row.extent(band)[0] + edge, row.extent(band)[1] + edge)) for band in row.groups.bands]
    regions = tuple(region_shape(row, band, extent, low, high) for band, extent in moved)
    size = np.tile([row.width, row.height], (count, 1))
    none = np.zeros(count, dtype=np.int64)
    turned = np.full(count, row.turned)
    top = high + 0.1 * row.groups.levels + _EDGE
    return Layout(row.length + 2 * edge, top, at, size, none, row.labels, turned, regions, circular=False)


def _edges(row: WorkerRow, x: Floats, size: Floats) -> tuple[float, float]:
    """Where the leftmost node or region begins and the rightmost ends."""
    return min(0.0, float((x - size[:, 0] / 2).min())), max(row.length, float((x + size[:, 0] / 2).max()))


def _switch_labels(network: Network, rows: Rows) -> tuple[tuple[str, ...], Floats]:
    """The names of the switches, row by row, unless a row of them is too long; and the widths of all nodes."""
    count = len(network.workers)
    labels = [shortened(name) for name in network.switches]
    widths = np.zeros(len(network.nodes))
    widths[count:] = [text_width(label) + 0.12 for label in labels]
    for height in range(1, int(rows.row.max(initial=0)) + 1):
        inside = np.flatnonzero(rows.row == height)
        if widths[inside].sum() + _BETWEEN * len(inside) > MOST_WIDTH:
            widths[inside] = min(_DOT, 0.5 * MOST_WIDTH / len(inside))
            for node in inside.tolist():
                labels[node - count] = ""
    return tuple(labels), widths


def _stretch(row: WorkerRow, rows: Rows, widths: Floats) -> float:
    """How much further apart the workers must be for the switches of every region to fit above it."""
    most = 1.0
    whole = Band("", 0, len(row.groups.order) - 1, 0)
    for band in (whole, *row.groups.bands):
        left, right = row.extent(band)
        for inside in _own_switches(rows, band):
            need = float((widths[inside] + _room_beside(widths[inside])).sum())
            most = max(most, need / (right - left))
    return most if most * row.length <= MOST_WIDTH * 1.2 else 1.0


def _own_switches(rows: Rows, band: Band) -> list[Ints]:
    """The switches that have only workers of a region below them, row by row."""
    own = (rows.row > 0) & (rows.first >= band.first) & (rows.last <= band.last)
    return [np.flatnonzero(own & (rows.row == height)) for height in np.unique(rows.row[own])]


def _columns(network: Network, row: WorkerRow, rows: Rows, widths: Floats) -> Floats:
    """Where every node is from left to right."""
    x = np.zeros(len(widths))
    x[: len(row.x)] = row.x
    graph = network.graph
    for height in range(1, int(rows.row.max(initial=0)) + 1):
        inside = rows.row == height
        total, count = np.zeros(len(x)), np.zeros(len(x))
        for one, other in ((graph.source, graph.destination), (graph.destination, graph.source)):
            down = inside[one] & (rows.row[other] < height)
            np.add.at(total, one[down], x[other[down]])
            np.add.at(count, one[down], 1.0)
        wanted = np.where(count > 0, total / np.maximum(count, 1.0), row.length / 2)
        nodes = np.flatnonzero(inside)
        nodes = nodes[np.argsort(np.round(wanted[nodes], 6), kind="stable")]
        x[nodes] = spaced(wanted[nodes], _gaps(nodes, rows, widths, row.length))
    return x


def _gaps(nodes: Ints, rows: Rows, widths: Floats, length: float) -> Floats:
    """Room between neighbours: for their names, and more where they stand above the same workers."""
    one, other = nodes[:-1], nodes[1:]
    shared: NDArray[np.bool_] = (rows.first[one] <= rows.last[other]) & (rows.first[other] <= rows.last[one])
    spread = np.where(shared, 0.5 * length / len(nodes), 0.0)
    beside = np.minimum(_room_beside(widths[one]), _room_beside(widths[other]))
    return np.maximum((widths[one] + widths[other]) / 2 + beside, spread)


def _room_beside(widths: Floats) -> Floats:
    """The least distance from a switch to the next: dots stand closer than names."""
    return np.minimum(_BETWEEN, widths)


def _arcs_below(network: Network, x: Floats) -> float:
    """The depth of the arcs of links between workers."""
    graph = network.graph
    return _arcs_depth(network, x, (graph.source < graph.workers) & (graph.destination < graph.workers))


def _arcs_above(network: Network, at: Floats, row: Ints) -> float:
    """The height that arcs between switches of one row reach above the highest row."""
    graph = network.graph
    highest = row == row.max()
    return _arcs_depth(network, at[:, 0], highest[graph.source] & highest[graph.destination])


def _arcs_depth(network: Network, x: Floats, chosen: NDArray[np.bool_]) -> float:
    """How far the longest arc of the chosen links leaves its row."""
    if not chosen.any():
        return 0.0
    longest = float(np.abs(x[network.graph.source[chosen]] - x[network.graph.destination[chosen]]).max())
    return float(arc_depth(longest)) + 0.05


def _heights(rows: Rows, ground: float, length: float) -> Floats:
    """The height of every row: higher rows need more room where the picture is wide."""
    step = min(max(0.11 * length, 0.95), 1.7)
    return np.where(rows.row > 0, ground + 0.1 + step * rows.row, ground)


def _regions(
    row: WorkerRow, rows: Rows, at: Floats, size: Floats, bottom: float, shift: float
) -> tuple[RegionShape, ...]:
    """A box around the workers of every region and the switches above them alone."""
    shapes = []
    for band in row.groups.bands:
        left, right = (edge + shift for edge in row.extent(band))
        top = float(at[0, 1]) + row.height / 2
        for inside in _own_switches(rows, band):
            left = min(left, float((at[inside, 0] - size[inside, 0] / 2).min()))
            right = max(right, float((at[inside, 0] + size[inside, 0] / 2).max()))
            top = max(top, float(at[inside, 1].max()) + _SWITCH_HEIGHT / 2)
        shapes.append(region_shape(row, band, (left, right), bottom, top))
    return tuple(shapes)
