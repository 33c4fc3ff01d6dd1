"""Table 3 and Figures 6 to 8 of the SparDL paper as pictures."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from weft.report.findings_page import Picture
from weft.reproductions.spardl import MODELS, Timing
from weft.reproductions.spardl_findings import Run
from weft.reproductions.spardl_training import Accuracy, accuracies

COLOURS = {
    "dense": "#9aa7b4", "TopkDSA": "#8c6d31", "TopkA": "#3b6fb6", "gTopk": "#7a4fa3", "Ok-Topk": "#2f8f83", "SparDL": "#c8443c",
    "TopkA, Bruck": "#3b6fb6", "Ok-Topk, Bruck": "#2f8f83",
}  # fmt: skip
METHOD_COLOURS = COLOURS | {
    "SparDL-gres": "#c8443c", "SparDL-pres": "#d9822b", "SparDL-lres": "#7a4fa3", "SparDL, 2 teams": "#e59a95",
}  # fmt: skip


def spardl_pictures(run: Run) -> list[Picture]:
    """All three, and Figure 8 if it was trained."""

    def models(figure: Figure | SubFigure) -> None:
        _draw_models(list(figure.subplots(1, len(MODELS))), run.models)

    def workers(figure: Figure | SubFigure) -> None:
        _draw_workers(figure.subplots(), run.workers)

    def teams(figure: Figure | SubFigure) -> None:
        _draw_teams(list(figure.subplots(1, 2)), run.teams)

    found = accuracies(run.trainings)

    def residuals(figure: Figure | SubFigure) -> None:
        _draw_accuracies(figure.subplots(), found)

    trained = [
        Picture("Figure 8: accuracy by epoch", "A CNN on Fashion-MNIST, eight workers, density 1%.", 3.8, residuals)
    ]
    return [
        Picture("Table 3: communication on six workers", "Dense is left out: it is far above.", 3.4, models),
        Picture(
            "Figure 6: VGG-16 by the number of workers",
            "Dashed: rivals that gather by Bruck's algorithm.",
            3.8,
            workers,
        ),
        Picture("Figure 7: SparDL in teams, six workers", "", 3.4, teams),
        *(trained if found else []),
    ]


def _draw_models(panels: list[Axes], timings: list[Timing]) -> None:
    for axes, model in zip(panels, MODELS, strict=True):
        shown = [t for t in timings if t.model == model and t.label != "dense"]
        axes.bar([t.label for t in shown], [1e3 * t.seconds for t in shown], color=[COLOURS[t.label] for t in shown])
        axes.tick_params(axis="x", labelrotation=45)
        axes.set_title(model)
    panels[0].set_ylabel("milliseconds")


def _draw_workers(axes: Axes, timings: list[Timing]) -> None:
    for label in dict.fromkeys(t.label for t in timings):
        shown = sorted((t.workers, 1e3 * t.seconds) for t in timings if t.label == label)
        style = "--" if "Bruck" in label else "-"
        axes.plot(*zip(*shown, strict=True), style, marker="o", color=COLOURS[label], label=label)
    axes.set_xticks(sorted({t.workers for t in timings}))
    axes.set_xlabel("workers")
    axes.set_ylabel("milliseconds")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)


def _draw_teams(panels: list[Axes], timings: list[Timing]) -> None:
    for axes, model in zip(panels, dict.fromkeys(t.model for t in timings), strict=True):
        shown = [t for t in timings if t.model == model]
        axes.bar(
            [t.label.replace(", ", "\n") for t in shown], [1e3 * t.seconds for t in shown], color=COLOURS["SparDL"]
        )
        axes.set_title(model)
    panels[0].set_ylabel("milliseconds")


def _draw_accuracies(axes: Axes, found: list[Accuracy]) -> None:
    for one in found:
        epochs = range(1, len(one.by_epoch) + 1)
        style = "--" if one.method == "dense" else "-"
        axes.plot(epochs, one.by_epoch, style, marker="o", color=METHOD_COLOURS.get(one.method), label=one.method)
    axes.set_xticks(range(1, len(found[0].by_epoch) + 1))
    axes.set_xlabel("epochs")
    axes.set_ylabel("accuracy, percent")
    axes.legend(fontsize=8)
