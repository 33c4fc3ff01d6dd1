"""Table IV and Figure 6 of the ASC-WFBP paper as pictures, and what other times of gradients make of them."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch

from weft.report.findings_page import Picture
from weft.reproductions.asc import Row
from weft.reproductions.asc_findings import Run
from weft.reproductions.asc_paper import PAPER
from weft.reproductions.asc_readings import Spread
from weft.reproductions.asc_workloads import EVEN_PARTS

COMPUTING = "#9aa7b4"
COLOURS = {"wfbp": "#8c6d31", "mg_wfbp": "#3b6fb6", "asc_wfbp": "#c8443c", "search": "#2f8f83"}
LINES = "Lines: the paper's MG-WFBP and ASC-WFBP."
SPREADS = ("profile", "ops", "ops, mem", *(f"{part:.0%}" for part in EVEN_PARTS))
LABELS = {"wfbp": "WFBP", "mg_wfbp": "MG", "asc_wfbp": "ASC", "search": "search"}


def asc_pictures(run: Run) -> list[Picture]:
    """All pictures."""

    def sixth(figure: Figure | SubFigure) -> None:
        _draw_steps(list(figure.subplots(1, len(PAPER))), run.rows)

    def slowness(figure: Figure | SubFigure) -> None:
        names = [s.how.split()[0] + (", ops" if "operations" in s.how else "") for s in run.slownesses]
        _draw_spreads(list(figure.subplots(1, len(PAPER))), run.slownesses, names)

    def spread(figure: Figure | SubFigure) -> None:
        _draw_spreads(list(figure.subplots(1, len(PAPER))), run.spreads, SPREADS)

    def program(figure: Figure | SubFigure) -> None:
        _draw_spreads(list(figure.subplots(1, len(PAPER))), run.program, (*SPREADS, "cluster"))

    return [
        Picture("Figure 6: where a step goes", "Grey: computing. Hatched: the paper's; filled: ours.", 3.6, sixth),
        Picture("ASC-WFBP by how many times as long all models compute as on one GPU", LINES, 3.6, slowness),
        Picture("ASC-WFBP by how the backward pass is spread", LINES, 3.6, spread),
        Picture("As public programs decide, with a of 32 workers, computing as on one GPU", LINES, 3.6, program),
    ]


def _draw_steps(panels: list[Axes], rows: list[Row]) -> None:
    for axes, row in zip(panels, rows, strict=True):
        paper = PAPER[row.name]
        for place, (name, colour) in enumerate(COLOURS.items()):
            ours = row.exposed(name)
            axes.bar(place + 0.2, row.compute, 0.36, color=COMPUTING)
            axes.bar(place + 0.2, ours, 0.36, bottom=row.compute, color=colour)
            if name != "search":
                axes.bar(place - 0.2, row.compute, 0.36, color=COMPUTING, alpha=0.5)
                waited = getattr(paper, name) - row.compute
                axes.bar(place - 0.2, waited, 0.36, bottom=row.compute, color="none", edgecolor=colour, hatch="///")
        axes.set_title(row.name)
        axes.set_xticks(range(len(COLOURS)), [LABELS[name] for name in COLOURS])
    panels[0].set_ylabel("seconds")
    meanings = [
        Patch(facecolor="none", edgecolor="black", hatch="///", label="the paper's"),
        Patch(facecolor="black", label="ours"),
        Patch(facecolor=COMPUTING, label="computing"),
    ]
    panels[0].legend(handles=meanings, loc="upper right", fontsize=8)


def _draw_spreads(panels: list[Axes], spreads: list[Spread], names: Sequence[str]) -> None:
    for axes, name in zip(panels, PAPER, strict=True):
        places = range(len(spreads))
        axes.bar(
            [p - 0.2 for p in places], [s.mg_wfbp[name] for s in spreads], 0.36, color=COLOURS["mg_wfbp"], label="MG"
        )
        axes.bar(
            [p + 0.2 for p in places], [s.asc_wfbp[name] for s in spreads], 0.36, color=COLOURS["asc_wfbp"], label="ASC"
        )
        for scheduler in ("mg_wfbp", "asc_wfbp"):
            stated = f"{LABELS[scheduler]}, the paper's"
            axes.axhline(
                getattr(PAPER[name], scheduler), color=COLOURS[scheduler], linestyle="--", linewidth=1, label=stated
            )
        axes.set_ylim(0, 1.5 * PAPER[name].mg_wfbp)
        axes.set_title(name)
        axes.set_xticks(places, names, rotation=45, fontsize=8)
    panels[0].set_ylabel("seconds")
    panels[0].legend(loc="upper right", ncols=2, fontsize=7)
