"""The picture of a schedule's trees: one small picture for each of its heaviest chunks.

An arrow is a transfer from one worker to another, over whatever links lie between them. Reductions run above the
workers (or in one colour on a circle), copies below them; the root, which is the first worker that holds the full sum,
is marked.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from weft.errors import InputError
from weft.network import Network
from weft.report.canvas import (
    CAPTION_TEXT, COPY_COLOUR, INK, REDUCE_COLOUR, TITLE_TEXT, canvas, caption_height, wrapped, write, write_caption, write_legend,
)  # fmt: skip
from weft.report.chunk_trees import ChunkTree, chunk_tree, heaviest_chunks
from weft.report.curves import arc_curves, arrowheads, bent_curves, curve_lines
from weft.report.layout import Layout, workers_layout
from weft.report.nodes import INACTIVE, ROOT, draw_nodes, draw_regions, looks_of, sample_of
from weft.report.shapes import Floats, Ints, arc_depth
from weft.schedule import Schedule

_MOST_WIDTH = 15.0
_LEAST_PANEL = 2.3
_EDGE, _BETWEEN = 0.15, 0.2
_TITLE, _PANEL_TITLE, _LEGEND = 0.42, 0.26, 0.3


def trees_figure(schedule: Schedule, network: Network, most: int = 6) -> Figure:
    """The trees of the ``most`` heaviest chunks, on the layout of the network's workers."""
    if schedule.workers != len(network.workers):
        raise InputError(
            f"the schedule has {schedule.workers} workers, {network.name!r} has {len(network.workers)}: give the network it was made for"
        )
    trees = [chunk_tree(schedule, chunk) for chunk in heaviest_chunks(schedule, most)]
    layout = workers_layout(network, *_room(trees, network))
    wide = max(layout.width, _LEAST_PANEL)
    columns = max(1, min(len(trees), 3, int(_MOST_WIDTH / (wide + _BETWEEN))))
    rows = -(-len(trees) // columns)
    width = max(columns * (wide + _BETWEEN) - _BETWEEN + 2 * _EDGE, 5.0)
    lines = wrapped(_caption(schedule, trees), width - 2 * _EDGE)
    below = caption_height(lines) + _LEGEND
    tall = layout.height + _PANEL_TITLE
    figure, axes = canvas(width, below + rows * tall + _TITLE)
    write(axes, (width / 2, below + rows * tall + 0.2), f"{schedule.name} on {network.name}", TITLE_TEXT, bold=True)
    left = (width - columns * (wide + _BETWEEN) + _BETWEEN) / 2
    for i, tree in enumerate(trees):
        right = left + (i % columns) * (wide + _BETWEEN) + (wide - layout.width) / 2
        _draw_tree(axes, network, layout.moved(right, below + (rows - 1 - i // columns) * tall), tree)
    write_legend(axes, _EDGE, below - _LEGEND / 2, _legend(trees, network))
    write_caption(axes, _EDGE, lines)
    return figure


def _room(trees: list[ChunkTree], network: Network) -> tuple[float, float]:
    """How much room the arcs need above and below the row of workers."""
    x = workers_layout(network, 0.0, 0.0).at[:, 0]
    above, below = (
        max((float(np.abs(x[pairs[:, 0]] - x[pairs[:, 1]]).max(initial=0.0)) for pairs in kind), default=0.0)
        for kind in ([tree.reduces for tree in trees], [tree.copies for tree in trees])
    )
    return tuple(float(arc_depth(distance)) + 0.05 if distance else 0.05 for distance in (above, below))  # type: ignore[return-value]


def _draw_tree(axes: Axes, network: Network, layout: Layout, tree: ChunkTree) -> None:
    draw_regions(axes, layout)
    dense = len(tree.reduces) + len(tree.copies) > 200
    for pairs, colour, up in ((tree.reduces, REDUCE_COLOUR, 1.0), (tree.copies, COPY_COLOUR, -1.0)):
        if len(pairs):
            curves = _circle_arrows(layout, pairs) if layout.circular else _row_arrows(layout, pairs, up)
            axes.add_collection(curve_lines(curves, colour, 0.35 if dense else 1.0, 2.0), autolim=False)
            if not dense:
                axes.add_collection(arrowheads(curves, 0.085, colour, 5.0), autolim=False)
    looks = looks_of(network)[: len(network.workers)]
    if tree.root is not None:
        looks[tree.root] = ROOT
    draw_nodes(axes, layout, looks)
    root = "" if tree.root is None else f", root {network.workers[tree.root]}"
    centre = (float(layout.at[:, 0].min() + layout.at[:, 0].max()) / 2, layout_top(layout) + _PANEL_TITLE / 2)
    write(axes, centre, f"chunk {tree.chunk}, {_percent(tree.share)}{root}", CAPTION_TEXT, INK, bold=True)
