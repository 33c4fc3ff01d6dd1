"""Figures 4 and 5 of the RAT paper as pictures."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from weft.report.findings_page import Picture
from weft.reproductions.rat import GBITS, Oversubscribed, Paused

COLOURS = {"PS": "#8c6d31", "ring": "#3b6fb6", "RAT": "#c8443c", "RAT, 2 segments": "#e39a8f"}
MARKS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


def rat_pictures(oversubscribed: list[Oversubscribed], paused: list[Paused]) -> list[Picture]:
    """Both figures."""

    def fourth(figure: Figure | SubFigure) -> None:
        _draw_figure_4(list(figure.subplots(1, len(GBITS))), oversubscribed)

    def fifth(figure: Figure | SubFigure) -> None:
        _draw_figure_5(list(figure.subplots(1, 2, sharey=True)), paused)

    return [
        Picture("Figure 4: oversubscribed networks", "97 MB, 2 spines, 4 leaves.", 3.6, fourth),
        Picture("Figure 5: paused nodes", "64 servers in 2 racks, 40 Gbit/s, 97 MB.", 3.6, fifth),
    ]


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
