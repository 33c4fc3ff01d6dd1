"""Nodes and regions as they look in every picture: names in rounded boxes, dots where there is no room for names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.patches import FancyBboxPatch, Patch, Polygon

from weft.network import Network
from weft.report.canvas import FAINT, PAPER, write
from weft.report.shapes import REGION_TEXT, Layout
from weft.report.words import NODE_TEXT

_REGION_SHADES = ("#e9eef3", "#f2f5f8", "#f7f9fb")


@dataclass(frozen=True, slots=True)
class NodeLook:
    """The colours of a node."""

    face: str
    edge: str
    ink: str
    line: Literal["-", "--"] = "-"
    least: float = 0.0
    """the least size of a dot"""


WORKER = NodeLook("#cfe3f5", "#3f6a94", "#14283c")
INACTIVE = NodeLook(PAPER, "#8391a0", "#5c6875", "--")
SWITCH = NodeLook("#4a5561", "#4a5561", PAPER)
ROOT = NodeLook("#f0c419", "#7a5f00", "#2b2100", least=0.1)


def looks_of(network: Network) -> list[NodeLook]:
    """The look of every node by what it is."""
    absent = set(network.inactive)
    workers = [INACTIVE if name in absent else WORKER for name in network.workers]
    return workers + [SWITCH] * len(network.switches)


def draw_regions(axes: Axes, layout: Layout) -> None:
    """The backgrounds of the regions, inner ones darker, with their names."""
    for region in layout.regions:
        shade = _REGION_SHADES[min(region.inner, len(_REGION_SHADES) - 1)]
        # A wide border of the same colour with round joins gives round corners.
        shape = Polygon(region.outline, closed=True, facecolor=shade, edgecolor=shade, zorder=0.5 - 0.1 * region.inner)
        shape.set_linewidth(2 * region.rounding * 72)
        shape.set_joinstyle("round")
        axes.add_patch(shape)
        if region.label:
            write(axes, region.label_at, region.label, REGION_TEXT, FAINT)


def draw_nodes(axes: Axes, layout: Layout, looks: Sequence[NodeLook]) -> None:
    """All nodes, each with its look."""
    dots: dict[NodeLook, list[int]] = {}
    for node, look in enumerate(looks):
        if layout.labels[node]:
            _draw_box(axes, layout, node, look)
        else:
            dots.setdefault(look, []).append(node)
    for look, nodes in dots.items():
        _draw_dots(axes, layout, nodes, look)


def _draw_box(axes: Axes, layout: Layout, node: int, look: NodeLook) -> None:
    x, y = layout.at[node].tolist()
    width, height = layout.size[node].tolist()
    shape = f"round,pad=0,rounding_size={0.3 * min(width, height):.4f}"
    corner = (x - width / 2, y - height / 2)
    box = FancyBboxPatch(corner, width, height, boxstyle=shape, facecolor=look.face, edgecolor=look.edge, zorder=4)
    box.set_linewidth(0.7)
    box.set_linestyle(look.line)
    axes.add_patch(box)
    write(axes, (x, y), layout.labels[node], NODE_TEXT, look.ink, turned=bool(layout.turned[node]))


def _draw_dots(axes: Axes, layout: Layout, nodes: list[int], look: NodeLook) -> None:
    sizes = np.maximum(layout.size[nodes], look.least)
    axes.add_collection(
        EllipseCollection(
            sizes[:, 0], sizes[:, 1], np.zeros(len(nodes)), units="x", offsets=layout.at[nodes],
            offset_transform=axes.transData, facecolors=look.face, edgecolors=look.edge, linewidths=0.4, zorder=4,
        ),
        autolim=False,
    )  # fmt: skip


def sample_of(look: NodeLook) -> Patch:
    """A sample for a legend."""
    return Patch(facecolor=look.face, edgecolor=look.edge, linestyle=look.line, linewidth=0.7)
