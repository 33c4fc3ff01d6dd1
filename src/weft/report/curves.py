"""Curves between nodes: straight links side by side, arcs between nodes of a row, arrowheads.

A curve is four points, one a row: a Bézier curve from the first to the last. Traffic keeps to the right.
"""

from __future__ import annotations

import numpy as np
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.path import Path

from weft.report.shapes import Floats

_CODES = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
_ASIDE = 0.035
"""how far apart bent lines of different sides begin and end, from the middle of their boxes"""
_STRAIGHT = [Path.MOVETO, Path.LINETO]


def straight_curves(start: Floats, end: Floats, aside: Floats) -> Floats:
    """Straight lines, each moved to the right of its direction by ``aside``: an array of four points a line."""
    along = end - start
    length = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)
    right = np.column_stack([along[:, 1], -along[:, 0]]) / length[:, None] * aside[:, None]
    parts = np.array([0.0, 1 / 3, 2 / 3, 1.0])
    lines: Floats = (start + right)[:, None, :] + along[:, None, :] * parts[None, :, None]
    return lines


def bent_curves(start: Floats, end: Floats, sizes: tuple[Floats, Floats], bend: Floats) -> Floats:
    """Lines from box to box that leave to the right of their direction by this part of their length, or to the left."""
    along = end - start
    length = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)[:, None]
    right = np.column_stack([along[:, 1], -along[:, 0]])
    aside = right / length * np.sign(bend)[:, None] * _ASIDE
    start, end = start + along * _inside(along, sizes[0]) + aside, end - along * _inside(along, sizes[1]) + aside
    along, out = end - start, right * bend[:, None] * 4 / 3
    return np.stack([start, start + along * 0.25 + out, start + along * 0.75 + out, end], axis=1)


def _inside(along: Floats, size: Floats) -> Floats:
    """What part of the way from its middle a line is still inside a box."""
    part: Floats = (size / 2 / np.maximum(np.abs(along), 1e-9)).min(axis=1)
    return np.minimum(part, 0.45)[:, None]


def arc_curves(start: Floats, end: Floats, depth: Floats) -> Floats:
    """Arcs between points of one height that leave it upwards by ``depth``, or downwards where that is negative."""
    away = np.column_stack([np.zeros(len(depth)), depth * 4 / 3])
    return np.stack([start, start + away, end + away, end], axis=1)


def points_on(curves: Floats, part: float) -> Floats:
    """Where each curve is after this part of its way."""
    rest = 1 - part
    weights = np.array([rest**3, 3 * part * rest**2, 3 * part**2 * rest, part**3])
    placed: Floats = np.einsum("k,nkd->nd", weights, curves)
    return placed


def curve_lines(curves: Floats, colours: Floats | str, widths: Floats | float, layer: float) -> PathCollection:
    """The curves as lines."""
    flat = np.allclose(curves[:, 1], curves[:, 0] + (curves[:, 3] - curves[:, 0]) / 3, atol=1e-6)
    paths = [Path(curve[[0, 3]], _STRAIGHT) if flat else Path(curve, _CODES) for curve in curves]
    return PathCollection(
        paths, facecolors="none", edgecolors=colours, linewidths=widths, zorder=layer, capstyle="butt"
    )  # fmt: skip


def arrowheads(curves: Floats, size: float, colour: str, layer: float) -> PolyCollection:
    """A filled tip at the end of every curve."""
    tip = curves[:, 3]
    along = tip - points_on(curves, 0.93)
    along = along / np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)[:, None] * size
    aside = np.column_stack([along[:, 1], -along[:, 0]]) * 0.38
    corners = np.stack([tip, tip - along + aside, tip - along - aside], axis=1)
    return PolyCollection(list(corners), facecolors=colour, edgecolors="none", zorder=layer)
