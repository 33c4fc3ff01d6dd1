"""The picture of a trace: a chart with a lane for every worker and a bar for every span.

Spans of one worker that overlap in time lie one above the other in its lane. The colour is the kind of the span:
reductions, copies, and whatever else a trace has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from weft.report.canvas import (
    CAPTION_TEXT,
    COPY_COLOUR,
    FAINT,
    INK,
    PAPER,
    REDUCE_COLOUR,
    TITLE_TEXT,
    canvas,
    caption_height,
    wrapped,
    write,
    write_caption,
    write_legend,
)
from weft.report.lanes import Lane, lanes_of
from weft.report.shapes import Floats
from weft.report.words import shortened, text_width
from weft.trace import Span, Trace
from weft.units import format_seconds

_CHART = 9.0
_EDGE, _TITLE, _LEGEND, _AXIS = 0.15, 0.42, 0.3, 0.42
_BAR, _LEAST_LANE, _BETWEEN = 0.15, 0.17, 0.06
_MOST_HEIGHT = 11.0
_MOST_TEXTS = 400
_BAR_TEXT, _TEXT_HEIGHT, _THIN, _BORDER = 6.0, 0.12, 0.05, 0.3
_MORE_COLOURS = ("#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def timeline_figure(trace: Trace, most_tracks: int = 40) -> Figure:
    """A trace; of more workers or spans than fit, the first."""
    lanes = lanes_of(trace, most_tracks)
    names = [shortened(lane.worker, 24) for lane in lanes]
    left = _EDGE + 0.12 + max(map(text_width, names), default=0.0)
    width = left + _CHART + 2 * _EDGE
    bar = _bar_height(lanes)
    tops, chart = _tops(lanes, bar)
    lines = wrapped(_caption(trace, lanes), width - 2 * _EDGE)
    below = caption_height(lines) + _LEGEND + _AXIS
    height = below + chart + _TITLE
    figure, axes = canvas(width, height)
    write(axes, (width / 2, height - 0.22), trace.title or "trace", TITLE_TEXT, bold=True)
    time = figure.add_axes((left / width, below / height, _CHART / width, chart / height))
    _prepare(time, lanes, chart)
    colours = _colours(lanes)
    for lane, name, top in zip(lanes, names, tops, strict=True):
        middle = below + chart - top - _lane_height(lane, bar) / 2
        write(axes, (left - 0.07, middle), name, CAPTION_TEXT, across="right")
    _draw_bars(time, lanes, tops, chart, bar, colours)
    samples: list[tuple[Patch | Line2D, str]] = [(Patch(facecolor=colour), kind) for kind, colour in colours.items()]
    write_legend(axes, _EDGE, below - _AXIS - _LEGEND / 2, samples)
    write_caption(axes, _EDGE, lines)
    return figure


def _bar_height(lanes: Sequence[Lane]) -> float:
    """The height of a bar: less where many overlap."""
    bars = sum(lane.sublanes for lane in lanes)
    return min(_BAR, _MOST_HEIGHT / max(1, bars))


def _lane_height(lane: Lane, bar: float) -> float:
    return max(_LEAST_LANE, lane.sublanes * bar)


def _tops(lanes: Sequence[Lane], bar: float) -> tuple[list[float], float]:
    """How far below the top of the chart each lane begins, and the height of all."""
    tops, height = [], _BETWEEN / 2
    for lane in lanes:
        tops.append(height)
        height += _lane_height(lane, bar) + _BETWEEN
    return tops, max(height, 0.4)


def _prepare(time: Axes, lanes: Sequence[Lane], chart: float) -> None:
    """The axis of time, in a unit that suits it."""
    first, last = _period(lanes)
    unit, name = _unit(last)
    time.set_xlim(first / unit, (last + 0.005 * (last - first)) / unit)
    time.set_ylim(0.0, chart)
    time.set_yticks([])
    time.set_xlabel(f"time ({name})", fontsize=CAPTION_TEXT, color=INK, labelpad=2)
    time.tick_params(axis="x", labelsize=CAPTION_TEXT, colors=FAINT, length=3, width=0.5)
    time.grid(axis="x", color="#e3e8ed", linewidth=0.6)
    time.set_axisbelow(True)
    for side, spine in time.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(FAINT)
        spine.set_linewidth(0.6)


def _period(lanes: Sequence[Lane]) -> tuple[float, float]:
    """From zero, unless all that is shown happened late, to the last end."""
    first = min((span.start for lane in lanes for span in lane.spans), default=0.0)
    last = max((span.end for lane in lanes for span in lane.spans), default=0.0)
    start = first if first < 0 or first > last / 2 else 0.0
    return start, last if last > start else start + 1e-6


def _unit(seconds: float) -> tuple[float, str]:
    return next((step for step in _UNITS if abs(seconds) >= step[0]), _UNITS[-1])


def _colours(lanes: Sequence[Lane]) -> dict[str, str]:
    """A colour for every kind of span that is shown."""
    kinds = {span.category for lane in lanes for span in lane.spans}
    known = {"reduce": REDUCE_COLOUR, "copy": COPY_COLOUR}
    others = sorted(kinds.difference(known))
    more = {kind: _MORE_COLOURS[i % len(_MORE_COLOURS)] for i, kind in enumerate(others)}
    return {kind: colour for kind, colour in (known | more).items() if kind in kinds}


def _draw_bars(
    time: Axes, lanes: Sequence[Lane], tops: Sequence[float], chart: float, bar: float, colours: dict[str, str]
) -> None:
    """All bars of one colour at once, and the names of the spans if most have room for them."""
    unit = _unit(_period(lanes)[1])[0]
    scale = _CHART / (time.get_xlim()[1] - time.get_xlim()[0])
    bars: dict[str, list[Floats]] = {kind: [] for kind in colours}
    borders: dict[str, list[float]] = {kind: [] for kind in colours}
    texts: list[tuple[tuple[float, float], str]] = []
    for lane, top in zip(lanes, tops, strict=True):
        thick = _lane_height(lane, bar) / lane.sublanes
        for span, place in zip(lane.spans, lane.sublane, strict=True):
            high = chart - top - place * thick
            start, end = span.start / unit, span.end / unit
            bars[span.category].append(_rectangle(start, end, high - (0.94 if thick > _THIN else 1.0) * thick, high))
            # A border around every one of many short spans would leave nothing of them to be seen.
            borders[span.category].append(_BORDER if bar > _THIN and (end - start) * scale > _THIN else 0.0)
            text = _bar_text(span, (end - start) * scale) if thick > _TEXT_HEIGHT else ""
            if text:
                texts.append((((start + end) / 2, high - thick / 2), text))
    for kind, corners in bars.items():
        bordered = PolyCollection(corners, facecolors=colours[kind], edgecolors=PAPER, zorder=3)
        bordered.set_linewidth(borders[kind])
        bordered.set_antialiased(bar > _THIN)
        time.add_collection(bordered, autolim=False)
    if sum(map(len, bars.values())) / 2 <= len(texts) <= _MOST_TEXTS:
        for at, text in texts:
            write(time, at, text, _BAR_TEXT, PAPER)


def _bar_text(span: Span, room: float) -> str:
    """The name of a span, with the receiver if there is room for it."""
    _, onward, receiver = span.track.partition(">")
    for text in (f"{span.name} to {receiver}" if onward else span.name, span.name):
        if text_width(text, _BAR_TEXT) < room:
            return text
    return ""


def _rectangle(left: float, right: float, low: float, high: float) -> Floats:
    return np.array([[left, low], [right, low], [right, high], [left, high]])


def _caption(trace: Trace, lanes: Sequence[Lane]) -> str:
    workers = len({span.worker for span in trace.spans})
    shown = sum(len(lane.spans) for lane in lanes)
    text = f"{workers:,} workers, {len(trace.spans):,} spans, {format_seconds(trace.seconds)}."
    overlapping = max((lane.sublanes for lane in lanes), default=1)
    if overlapping > 1:
        text += f" Up to {overlapping} spans of a worker at the same time."
    if shown < len(trace.spans):
        text += f" Shown: the first {len(lanes):,} workers in order of their names, with {shown:,} spans."
    return text
