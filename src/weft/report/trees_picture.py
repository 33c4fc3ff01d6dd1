"""The picture of a schedule's trees: one small picture for each of its heaviest chunks.

An arrow is a transfer from one worker to another, over whatever links lie between them. Reductions run above the
workers (or in one colour on a circle), copies below them; the root, which is the first worker that holds the full sum,
is marked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from weft.errors import InputError
from weft.network import Network
from weft.report.arcs import row_arcs
from weft.report.canvas import (
    CAPTION_TEXT,
    COPY_COLOUR,
    REDUCE_COLOUR,
    TITLE_TEXT,
    canvas,
    caption_height,
    wrapped,
    write,
    write_caption,
    write_legend,
)
from weft.report.chunk_trees import ChunkTree, chunk_tree, heaviest_chunks
from weft.report.curves import arrowheads, bent_curves, curve_lines
from weft.report.layout import Layout, workers_layout
from weft.report.nodes import INACTIVE, ROOT, draw_nodes, draw_regions, looks_of, sample_of
from weft.report.shapes import Floats, Ints, arc_depth
from weft.report.words import shortened
from weft.schedule import Schedule

_MOST_WIDTH = 15.0
_LEAST_PANEL, _LEAST_WIDTH = 2.4, 5.2
_MOST_ARROWS = 300
_REDUCE_BEND, _COPY_BEND = 0.06, 0.1
_EDGE, _BETWEEN = 0.15, 0.2
_TITLE, _PANEL_TITLE, _LEGEND = 0.42, 0.26, 0.3


def trees_figure(schedule: Schedule, network: Network, most: int = 6) -> Figure:
    """The trees of the ``most`` heaviest chunks, on the layout of the network's workers."""
    if schedule.workers != len(network.workers):
        raise InputError(
            f"the schedule is for {schedule.workers} workers and {network.name!r} has {len(network.workers)}: "
            "give the network that it was made for"
        )
    trees = [chunk_tree(schedule, chunk) for chunk in heaviest_chunks(schedule, most)]
    above, below = (_room(network, pairs) for pairs in ([t.reduces for t in trees], [t.copies for t in trees]))
    layout = workers_layout(network, above, below)
    wide, tall = max(layout.width, _LEAST_PANEL) + _BETWEEN, layout.height + _PANEL_TITLE
    columns = max(1, min(len(trees), 3, int(_MOST_WIDTH / wide)))
    rows = -(-len(trees) // columns)
    width = max(columns * wide - _BETWEEN + 2 * _EDGE, _LEAST_WIDTH)
    lines = wrapped(_caption(schedule, trees), width - 2 * _EDGE)
    below = caption_height(lines) + _LEGEND
    figure, axes = canvas(width, below + rows * tall + _TITLE)
    write(axes, (width / 2, below + rows * tall + 0.2), f"{schedule.name} on {network.name}", TITLE_TEXT, bold=True)
    for i, tree in enumerate(trees):
        centre = width / 2 + wide * (i % columns - (columns - 1) / 2)
        bottom = below + (rows - 1 - i // columns) * tall
        write(axes, (centre, bottom + layout.height + 0.1), _heading(tree, network), CAPTION_TEXT, bold=True)
        _draw_tree(axes, network, layout.moved(centre - layout.width / 2, bottom), tree)
    write_legend(axes, _EDGE, below - _LEGEND / 2, _legend(network))
    write_caption(axes, _EDGE, lines)
    return figure


def _room(network: Network, transfers: Sequence[Ints]) -> float:
    """How much room the arcs of these transfers need beside the row of workers."""
    x = workers_layout(network, 0.0, 0.0).at[:, 0]
    longest = max(float(np.abs(x[pairs[:, 0]] - x[pairs[:, 1]]).max(initial=0.0)) for pairs in transfers)
    return float(arc_depth(longest)) + 0.05 if longest else 0.05


def _draw_tree(axes: Axes, network: Network, layout: Layout, tree: ChunkTree) -> None:
    draw_regions(axes, layout)
    dense = len(tree.reduces) + len(tree.copies) > _MOST_ARROWS
    for pairs, colour, copies in ((tree.reduces, REDUCE_COLOUR, False), (tree.copies, COPY_COLOUR, True)):
        if len(pairs):
            curves = _chords(layout, tree, pairs, copies) if layout.circular else _arcs(layout, pairs, copies)
            axes.add_collection(curve_lines(curves, colour, 0.35 if dense else 1.0, 2.0), autolim=False)
            if not dense:
                size = 0.085 if len(layout.at) <= 16 else 0.065
                axes.add_collection(arrowheads(curves, size, colour, 5.0), autolim=False)
    looks = looks_of(network)[: len(network.workers)]
    if tree.root is not None:
        looks[tree.root] = ROOT
    draw_nodes(axes, layout, looks)


def _arcs(layout: Layout, pairs: Ints, copies: bool) -> Floats:
    """Reductions above the row, copies below it."""
    up = np.full(len(pairs), -1.0 if copies else 1.0)
    return row_arcs(layout, pairs[:, 0], pairs[:, 1], up, np.full(len(pairs), 0.012))


def _chords(layout: Layout, tree: ChunkTree, pairs: Ints, copies: bool) -> Floats:
    """Lines inside the circle, bent to their right; a copy that goes the way of a reduction is bent to its left."""
    bend = np.full(len(pairs), _COPY_BEND if copies else _REDUCE_BEND)
    if copies:
        reduces = set(map(tuple, tree.reduces.tolist()))
        bend *= [-1.0 if tuple(pair) in reduces else 1.0 for pair in pairs.tolist()]
    source, destination = pairs[:, 0], pairs[:, 1]
    return bent_curves(layout.at[source], layout.at[destination], (layout.size[source], layout.size[destination]), bend)


def _heading(tree: ChunkTree, network: Network) -> str:
    root = "no root" if tree.root is None else f"root {shortened(network.workers[tree.root])}"
    return f"chunk {tree.chunk}: {_percent(tree.share)}, {root}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _legend(network: Network) -> list[tuple[Patch | Line2D, str]]:
    colours = (("reduce", REDUCE_COLOUR), ("copy", COPY_COLOUR))
    entries: list[tuple[Patch | Line2D, str]] = [(Line2D([], [], color=colour), text) for text, colour in colours]
    entries.append((sample_of(ROOT), "root"))
    return entries + ([(sample_of(INACTIVE), "inactive")] if network.inactive else [])


def _caption(schedule: Schedule, trees: Sequence[ChunkTree]) -> str:
    count = len(schedule.chunk_weights)
    if len(trees) == count:
        text = "The only chunk" if count == 1 else f"All {count} chunks, the heaviest first"
    else:
        together = _percent(sum(tree.share for tree in trees))
        text = f"{len(trees)} of {count:,} chunks, the heaviest first, together {together} of the tensor"
    return f"{text}. An arrow is a transfer from worker to worker. The root is the first to hold the full sum."
