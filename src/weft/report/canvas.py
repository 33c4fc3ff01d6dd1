"""The canvas: a matplotlib figure whose coordinates are inches, and what all pictures write and draw in one way.

matplotlib is used as objects alone: no pyplot, no window, no figure that anyone else could reach.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from weft.report.words import text_width

INK, FAINT, PAPER = "#1f2933", "#6b7785", "#ffffff"
REDUCE_COLOUR, COPY_COLOUR = "#0072b2", "#d55e00"
TITLE_TEXT, CAPTION_TEXT = 11.0, 7.5
_CAPTION_LINE = 0.15


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure and axes over all of it, in inches from the lower left corner."""
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0.0, width)
    axes.set_ylim(0.0, height)
    axes.set_autoscale_on(False)
    return figure, axes


def write(
    axes: Axes,
    at: tuple[float, float],
    text: str,
    size: float,
    colour: str = INK,
    across: str = "center",
    *,
    turned: bool = False,
    bold: bool = False,
    on_paper: bool = False,
) -> None:
    """One line of text, exactly as it is: a dollar sign in a name starts no formula."""
    paper = {"boxstyle": "round,pad=0.12", "facecolor": PAPER, "edgecolor": "none", "alpha": 0.85}
    axes.text(
        *at, text, fontsize=size, color=colour, ha=across, va="center_baseline" if not turned else "center",
        rotation=90 if turned else 0, fontweight="bold" if bold else "normal", zorder=6, parse_math=False,
        bbox=paper if on_paper else None,
    )  # fmt: skip


def wrapped(text: str, width: float, size: float = CAPTION_TEXT) -> list[str]:
    """The lines of a text that has to fit into a width."""
    return textwrap.wrap(text, max(20, int(1.1 * width / text_width("m", size)))) if text else []


def caption_height(lines: Sequence[str]) -> float:
    return 0.1 + _CAPTION_LINE * len(lines)


def write_caption(axes: Axes, left: float, lines: Sequence[str]) -> None:
    """A text at the bottom."""
    for i, line in enumerate(reversed(lines)):
        write(axes, (left, 0.12 + _CAPTION_LINE * i), line, CAPTION_TEXT, FAINT, "left")


def legend_width(entries: Sequence[tuple[Patch | Line2D, str]]) -> float:
    """About how wide a legend is."""
    return sum(text_width(text, CAPTION_TEXT) + 0.45 for _, text in entries)


def write_legend(axes: Axes, left: float, height: float, entries: Sequence[tuple[Patch | Line2D, str]]) -> None:
    """Samples with their meaning, side by side, from the left at this height."""
    if not entries:
        return
    samples, texts = zip(*entries, strict=True)
    width, tall = axes.get_xlim()[1], axes.get_ylim()[1]
    legend = axes.legend(
        list(samples), list(texts), loc="center left", bbox_to_anchor=(left / width, height / tall), ncols=len(entries),
        frameon=False, fontsize=CAPTION_TEXT, borderpad=0.0, borderaxespad=0.0, handlelength=1.8, columnspacing=1.4,
    )  # fmt: skip
    legend.set_zorder(7)
    for text in legend.get_texts():
        text.set_parse_math(False)
        text.set_color(INK)
