"""Figures 4 to 7 of the tree-packing paper as pictures."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from weft.report.findings_page import Picture
from weft.reproductions import packing_figure_6
from weft.reproductions.packing import BASELINES, GBITS, Row
from weft.reproductions.packing_findings import Run

COLOURS = {
    "Blink": "#7a5195", "PLink": "#2f8f83", "ring": "#3b6fb6", "double tree": "#9aa7b4", "PS": "#8c6d31",
    "ours, (3) and (8)": "#e39a8f", "ours": "#c8443c",
}  # fmt: skip
BY_GBIT = dict(zip(GBITS, ("#c8443c", "#8c6d31", "#2f8f83", "#3b6fb6"), strict=True))
MARKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


def packing_pictures(run: Run) -> list[Picture]:
    """All four figures."""

    def fourth(figure: Figure | SubFigure) -> None:
        _draw_times(list(figure.subplots(1, len(GBITS), sharey=True)), run.all_active)

    def fifth(figure: Figure | SubFigure) -> None:
        _draw_times(list(figure.subplots(1, len(GBITS), sharey=True)), run.partly_active)

    def sixth(figure: Figure | SubFigure) -> None:
        _draw_figure_6(list(figure.subplots(1, 2, sharey=True)), run.figure_6)

    def seventh(figure: Figure | SubFigure) -> None:
        _draw_figure_7(figure.subplots(), run.partly_active)

    network = "1.33 GB; a link between every two GPUs, 100 Gbit/s inside a machine"
    hidden = "PLink lies under PS where it is not seen."
    return [
        Picture("Figure 4: all workers active", f"{network}, by the rate between machines. {hidden}", 4.2, fourth),
        Picture("Figure 5: some workers active", f"{network}; 4x4, active GPUs of each machine. {hidden}", 4.6, fifth),
        Picture("Figure 6: 8x8 GPUs, 100 Gbit/s everywhere", "1.33 GB, by which GPUs are active.", 3.8, sixth),
        Picture("Figure 7: what overlap saves", "4x4; stages of any length against formulation (3).", 3.6, seventh),
    ]


def _draw_times(panels: Sequence[Axes], rows: list[Row]) -> None:
    for axes, gbit in zip(panels, GBITS, strict=True):
        chosen = [row for row in rows if row.gbit == gbit]
        lines = {name: [row.baselines[name] for row in chosen] for name in BASELINES}
        lines["ours, (3) and (8)"] = [row.separate for row in chosen]
        lines["ours"] = [row.pipelined for row in chosen]
        for name, seconds in lines.items():
            axes.plot(
                range(len(chosen)), [s * 1e3 for s in seconds], marker="o", markersize=4, linewidth=0.6, label=name,
                color=COLOURS[name],
            )  # fmt: skip
        axes.set(title=f"{gbit} Gbit/s", yscale="log")
        _name_places(axes, [row.name for row in chosen])
    low, high = panels[0].get_ylim()
    marks = [mark for mark in MARKS if low < mark < high]
    panels[0].set_yticks(marks, [f"{mark:g}" for mark in marks])
    for axes in panels:
        axes.minorticks_off()
    panels[0].set_ylabel("milliseconds")
    handles, labels = panels[0].get_legend_handles_labels()
    figure = panels[0].figure
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)


def _draw_figure_6(panels: Sequence[Axes], rows: list[packing_figure_6.Row]) -> None:
    for axes, inside in zip(panels, ("mesh", "DGX-1"), strict=True):
        chosen = [row for row in rows if row.inside == inside]
        places = range(len(chosen))
        bars = {
            "best baseline": ("#8c6d31", [row.best for row in chosen]),
            "ours": ("#c8443c", [row.ours for row in chosen]),
            "bound": ("#9aa7b4", [row.bound for row in chosen]),
        }
        for i, (name, (colour, seconds)) in enumerate(bars.items()):
            axes.bar([p + 0.27 * (i - 1) for p in places], [s * 1e3 for s in seconds], 0.25, label=name, color=colour)
        for place, row in zip(places, chosen, strict=True):
            axes.annotate(f"{row.ratio:.2f}x", (place - 0.27, row.best * 1e3), ha="center", va="bottom", fontsize=8)
        axes.set(title=f"{inside} inside machines")
        _name_places(axes, [row.name if "," not in row.name else "two of each" for row in chosen], turned=False)
    panels[0].set_ylabel("milliseconds")
    panels[0].legend(frameon=False, fontsize=8)


def _draw_figure_7(axes: Axes, rows: list[Row]) -> None:
    for gbit in GBITS:
        chosen = [row for row in rows if row.gbit == gbit]
        gains = [max(0.0, row.overlap_gain) * 100 for row in chosen]
        axes.plot(
            range(len(chosen)),
            gains,
            marker="o",
            markersize=4,
            linewidth=0.6,
            color=BY_GBIT[gbit],
            label=f"{gbit} Gbit/s",
        )
        _name_places(axes, [row.name for row in chosen])
    printed = [max(0.0, 1 - row.overlapped / row.separate) * 100 for row in rows if row.gbit == GBITS[0]]
    axes.plot(range(len(printed)), printed, linestyle="--", color="#5c6875", label="(8) as printed")
    axes.axhline(30, linestyle=":", color="#5c6875", label="the paper's most")
    axes.set_ylabel("% of the time")
    axes.figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize=8)


def _name_places(axes: Axes, names: list[str], turned: bool = True) -> None:
    if turned:
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
    else:
        axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.grid(alpha=0.3)
