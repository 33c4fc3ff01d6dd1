"""Figures 4 and 5 of the RAT paper as pictures, and all of the reproduction on one page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weft.files import write_atomically
from weft.report.page import Section, html_page
from weft.report.save import save_figure, svg_text
from weft.reproductions.rat import GBITS, Oversubscribed, Paused

COLOURS = {"PS": "#8c6d31", "ring": "#3b6fb6", "RAT": "#c8443c", "RAT, 2 segments": "#e39a8f"}
MARKS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
Table = list[list[str]]


def save_rat(
    path: Path, oversubscribed: list[Oversubscribed], paused: list[Paused], numbers: Table, reasons: list[str]
) -> None:
    """A page for .html; for .svg and .png both figures above each other."""
    if path.suffix == ".html":
        write_atomically(path, _page(oversubscribed, paused, numbers, reasons))
        return
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    halves = np.asarray(figure.subfigures(2, 1))
    _draw_figure_4(halves[0].subplots(1, len(GBITS)), oversubscribed)
    _draw_figure_5(halves[1].subplots(1, 2, sharey=True), paused)
    save_figure(figure, path)


def _page(oversubscribed: list[Oversubscribed], paused: list[Paused], numbers: Table, reasons: list[str]) -> str:
    first = Figure(figsize=(11, 3.6), layout="constrained")
    _draw_figure_4(first.subplots(1, len(GBITS)), oversubscribed)
    second = Figure(figsize=(11, 3.6), layout="constrained")
    _draw_figure_5(second.subplots(1, 2, sharey=True), paused)
    rows = tuple(tuple(row) for row in numbers[1:])
    sections = [
        Section("The paper's numbers beside ours", tuple(reasons), ("", "paper", "ours"), rows),
        Section("Figure 4: oversubscribed networks", svg=svg_text(first), caption="97 MB, 2 spines, 4 leaves."),
        Section("Figure 5: paused nodes", svg=svg_text(second), caption="64 servers in 2 racks, 40 Gbit/s, 97 MB."),
    ]
    return html_page("RAT, Section 4, made again", sections)


def _draw_figure_4(panels: list[Axes], rows: list[Oversubscribed]) -> None:
    for axes, gbit in zip(panels, GBITS, strict=True):
        chosen = [row for row in rows if row.gbit == gbit]
        ratios = [row.ratio for row in chosen]
        lines = {
            "PS": [row.parameter_server for row in chosen],
            "ring": [row.ring for row in chosen],
            "RAT": [row.rat for row in chosen],
            "RAT, 2 segments": [row.rat_pipelined for row in chosen],
        }
        for name, seconds in lines.items():
            axes.plot(ratios, [s * 1e3 for s in seconds], marker="o", markersize=4, label=name, color=COLOURS[name])
        axes.set(title=f"{gbit} Gbit/s", xlabel="oversubscription", xscale="log", yscale="log")
        axes.set_xticks(ratios, [f"{ratio}:1" for ratio in ratios])
        low, high = axes.get_ylim()
        marks = [mark for mark in MARKS if low < mark < high]
        axes.set_yticks(marks, [f"{mark:g}" for mark in marks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("milliseconds")
    panels[0].legend(frameon=False, fontsize=8)


def _draw_figure_5(panels: list[Axes], rows: list[Paused]) -> None:
    titles = {"stream": "one message of a channel at a time", "shared": "all ready messages share a channel"}
    for axes, (channel, title) in zip(panels, titles.items(), strict=True):
        chosen = [row for row in rows if row.channel == channel]
        places = range(len(chosen))
        for name, slowdowns in {
            "PS": [row.parameter_server for row in chosen],
            "ring": [row.ring for row in chosen],
            "RAT": [row.rat for row in chosen],
        }.items():
            axes.plot(places, slowdowns, marker="o", markersize=4, label=name, color=COLOURS[name])
        axes.set(title=title, xlabel="paused nodes", yscale="log")
        axes.set_xticks(places, [str(row.paused) for row in chosen])
        axes.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("times longer than without")
    panels[0].legend(frameon=False, fontsize=8)
