"""The circle: networks of direct links, clockwise in rank order from the top, with gaps between regions."""

from __future__ import annotations

import math

import numpy as np

from weft.network import Network
from weft.report.groups import Band, Groups, groups_of
from weft.report.shapes import REGION_MARGIN, REGION_TEXT, Floats, Layout, RegionShape
from weft.report.words import fitting, shortened, text_width

_HEIGHT = 0.22
_DOT = 0.06
_MOST_RADIUS = 6.0


def circular_layout(network: Network, least_radius: float) -> Layout:
    """All nodes on a circle, as small as their names allow."""
    count = len(network.workers)
    groups = groups_of(network)
    labels = tuple(map(shortened, network.workers))
    wide, high = max(_HEIGHT, max(map(text_width, labels)) + 0.12), _HEIGHT
    if count * (wide + 0.06) > 2 * math.pi * _MOST_RADIUS:
        labels, wide, high = ("",) * count, _DOT, _DOT
    angles, radius = _angles(groups, wide + 0.2, least_radius)
    ring = radius * np.column_stack([np.sin(angles), np.cos(angles)])
    rim = groups.levels * (REGION_MARGIN * 2 + 0.2)
    side = text_width("m" * 14, REGION_TEXT) if groups.bands else 0.0
    reach = np.abs(ring).max(axis=0) + np.array([wide / 2 + rim + side + 0.1, high / 2 + rim + 0.1])
    at = np.empty((count, 2))
    at[groups.order] = ring + reach
    regions = tuple(_shape(band, angles, radius, wide, reach) for band in groups.bands)
    return Layout(
        2 * reach[0], 2 * reach[1], at, np.tile([wide, high], (count, 1)), np.zeros(count, dtype=np.int64), labels,
        np.zeros(count, dtype=np.bool_), regions, circular=True,
    )  # fmt: skip


def _angles(groups: Groups, pitch: float, least_radius: float) -> tuple[Floats, float]:
    """The angles of the places, from the top clockwise, and a radius that gives each its room."""
    if len(groups.order) < 3:
        # One in the middle, or two side by side.
        return np.array([-0.5, 0.5])[: len(groups.order)] * math.pi, least_radius if len(groups.order) > 1 else 0.0
    before = groups.gaps(0.5)
    closing = 1.0 if groups.bands else 0.0
    turns = np.cumsum(1.0 + before) - 1.0
    whole = turns[-1] + 1.0 + closing
    radius = min(max(whole * pitch / (2 * math.pi), least_radius), _MOST_RADIUS)
    return turns / whole * 2 * math.pi, radius


def _shape(band: Band, angles: Floats, radius: float, wide: float, centre: Floats) -> RegionShape:
    """A piece of a ring behind the workers of a region, its name outside."""
    margin = REGION_MARGIN * (band.inner + 1) + 0.2 * band.inner
    inside, outside = radius - wide / 2 - margin, radius + wide / 2 + margin
    more = 0.6 * wide / radius
    sweep = np.linspace(angles[band.first] - more, angles[band.last] + more, 8 + 4 * (band.last - band.first))
    ring = np.column_stack([np.sin(sweep), np.cos(sweep)])
    outline = np.concatenate([outside * ring, inside * ring[::-1]]) + centre
    middle = (angles[band.first] + angles[band.last]) / 2
    out = outside + REGION_MARGIN + 0.12
    label_at = (float(centre[0] + (out + 0.35) * math.sin(middle)), float(centre[1] + out * math.cos(middle)))
    return RegionShape(band.name, fitting(band.name, 0.8, REGION_TEXT), outline, label_at, band.inner, REGION_MARGIN)
