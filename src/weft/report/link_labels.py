"""Labels of the busiest links: each beside its line, none over another label, a node, or the line of another cable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.network import Graph
from weft.report.curves import points_on
from weft.report.shapes import Floats, Ints, Layout
from weft.report.words import text_width

LABEL_TEXT = 7.0
_HEIGHT = 0.15
_ARROWS = "→↗↑↖←↙↓↘"
_PARTS = (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82)
_WORTH = 0.8
"""links with less than this part of the highest load are not labelled"""
_FIRST = 3
"""so many are labelled even where the label covers some lines, unless many links are equally busy"""


_MANY = 200
"""where more links are equally busy, no label says more than the caption"""
_APART = 0.015


@dataclass(frozen=True, slots=True)
class LinkLabel:
    """A text, and where its middle is."""

    text: str
    at: tuple[float, float]

    @property
    def box(self) -> Floats:
        return _box(*self.at, text_width(self.text, LABEL_TEXT), _HEIGHT)


def busiest(loads: Floats) -> Ints:
    """The links that are as busy as the busiest, to the percent."""
    percent = np.round(loads, 2)
    return np.flatnonzero((percent == percent.max(initial=0.0)) & (percent > 0))


def link_labels(graph: Graph, layout: Layout, curves: Floats, loads: Floats, most: int = 6) -> list[LinkLabel]:
    """Labels for the busiest links, as many as find room."""
    if len(busiest(loads)) > _MANY:
        return []
    order = np.lexsort((np.arange(len(loads)), -np.round(loads, 2)))[: 20 * most]
    order = order[loads[order] >= max(0.005, _WORTH * float(loads.max(initial=0.0)))]
    taken = [_box(*layout.at[node].tolist(), *layout.size[node].tolist()) for node in range(len(layout.at))]
    taken += [_box(*region.label_at, text_width(region.label), _HEIGHT) for region in layout.regions]
    segments = _segments(curves)
    beyond = 0.5 if layout.circular else 0.0
    edges = (layout.left - beyond, layout.left + layout.width + beyond)
    cable = np.sort(np.column_stack([graph.source, graph.destination]), axis=1)
    labels: list[LinkLabel] = []
    sure = order[:_FIRST] if len(busiest(loads)) <= most else order[:0]
    said: set[tuple[str, int, int]] = set()
    for link in order.tolist():
        # Of equally busy links, one that enters and one that leaves a node is enough.
        news = {(side, node, round(100 * loads[link])) for side, node in _ends(graph, link)}
        if news & said:
            continue
        others = segments[(cable != cable[link]).any(axis=1)].reshape(-1, 2, 2)
        allowed = len(others) if link in sure else 0
        label = _least_covering(_candidates(curves[link], float(loads[link])), taken, others, edges, allowed)
        if label is not None:
            labels.append(label)
            taken.append(label.box)
            said |= news
        if len(labels) == most:
            break
    return labels


def _ends(graph: Graph, link: int) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("from", int(graph.source[link])), ("to", int(graph.destination[link]))


def _segments(curves: Floats, pieces: int = 8) -> Floats:
    """Every curve as straight pieces: curve, piece, end, coordinate."""
    points = np.stack([points_on(curves, part) for part in np.linspace(0.0, 1.0, pieces + 1)], axis=1)
    return np.stack([points[:, :-1], points[:, 1:]], axis=2)


def _candidates(curve: Floats, load: float) -> list[LinkLabel]:
    """Places for the label of a link: to the right of its direction, from its middle outwards."""
    labels = []
    for part in _PARTS:
        here, ahead = (points_on(curve[None], where)[0] for where in (part, part + 0.02))
        angle = float(np.arctan2(*(ahead - here)[::-1]))
        text = f"{_ARROWS[round(angle / (np.pi / 4)) % 8]} {load:.0%}"
        right = np.array([np.sin(angle), -np.cos(angle)])
        reach = abs(right[0]) * text_width(text, LABEL_TEXT) / 2 + abs(right[1]) * _HEIGHT / 2 + 0.03
        x, y = (here + right * reach).tolist()
        labels.append(LinkLabel(text, (x, y)))
    return labels


def _least_covering(
    candidates: Sequence[LinkLabel], taken: Sequence[Floats], lines: Floats, edges: tuple[float, float], allowed: int
) -> LinkLabel | None:
    """The label that covers the fewest lines, at most ``allowed``, and nothing that is taken."""
    boxes = np.array(taken)
    left, right = edges
    free = [x for x in candidates if left < x.box[0] and x.box[2] < right and not _overlaps(x.box, boxes).any()]
    covered = [int(_crosses(label.box, lines).sum()) for label in free]
    if not covered or min(covered) > allowed:
        return None
    return free[covered.index(min(covered))]


def _box(x: float, y: float, width: float, height: float) -> Floats:
    return np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2])


def _overlaps(box: Floats, others: Floats) -> NDArray[np.bool_]:
    beside = (others[:, 2] < box[0]) | (others[:, 0] > box[2]) | (others[:, 3] < box[1]) | (others[:, 1] > box[3])
    overlapping: NDArray[np.bool_] = ~beside
    return overlapping


def _crosses(box: Floats, segments: Floats) -> NDArray[np.bool_]:
    """Which segments pass through a box: from where they have entered its columns and rows until they leave either."""
    along = segments[:, 1] - segments[:, 0]
    along = np.where(np.abs(along) < 1e-9, 1e-9, along)
    near, far = (box[:2] - _APART - segments[:, 0]) / along, (box[2:] + _APART - segments[:, 0]) / along
    enter = np.minimum(near, far).max(axis=1)
    leave = np.maximum(near, far).min(axis=1)
    crossing: NDArray[np.bool_] = (enter <= leave) & (leave >= 0) & (enter <= 1)
    return crossing
