"""Tables III to V of the DS-Sync paper as pictures: communication by method, and accuracy by time where it was trained."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch

from weft.report.findings_page import Picture
from weft.reproductions.ds_sync import LABELS, METHODS, SCENARIOS, Row
from weft.reproductions.ds_sync_findings import Run
from weft.reproductions.ds_sync_training import COMPUTE, Curve

COLOURS = {"ar": "#3b6fb6", "hier": "#8c6d31", "asp": "#9aa7b4", "gossip": "#7b5ba6", "ds-sync": "#c8443c"}
METHOD = {"bsp": "ar", "ds-sync": "ds-sync", "gossip": "gossip", "asp": "asp"}


def ds_sync_pictures(run: Run) -> list[Picture]:
    """Communication in every scenario; below it accuracies, if there are any."""

    def communication(figure: Figure | SubFigure) -> None:
        _draw_communication(list(figure.subplots(1, len(SCENARIOS))), run.rows)

    def accuracy(figure: Figure | SubFigure) -> None:
        _draw_accuracy(list(figure.subplots(1, len(SCENARIOS))), run)

    caption = (
        "Relative to all-reduce. Hatched: the paper's, CIFAR-10; filled: ours, the other job takes half of its links."
    )
    found = [Picture("Tables III to V: communication of a step", caption, 3.6, communication)]
    if run.curves:
        found.append(Picture("Accuracy by simulated time", "First seed; DS-Sync's is its ensemble's.", 3.6, accuracy))
    return found


def _draw_communication(panels: list[Axes], rows: list[Row]) -> None:
    for axes, (name, scenario) in zip(panels, SCENARIOS.items(), strict=True):
        row = next(row for row in rows if row.scenario == name)
        stated = scenario.milliseconds["cifar10"]
        for place, method in enumerate(METHODS):
            axes.bar(place - 0.2, stated[place] / stated[0], 0.36, color="none", edgecolor=COLOURS[method], hatch="///")
            axes.bar(place + 0.2, row.seconds(method) / row.seconds("ar"), 0.36, color=COLOURS[method])
        axes.axhline(1, color="black", linewidth=0.5)
        axes.set_title(f"Table {scenario.table}: {name}")
        axes.set_xticks(range(len(METHODS)), [LABELS[method] for method in METHODS], rotation=30, fontsize=8)
    panels[0].set_ylabel("times all-reduce")
    meanings = [
        Patch(facecolor="none", edgecolor="black", hatch="///", label="the paper's"),
        Patch(facecolor="black", label="ours"),
    ]
    panels[0].legend(handles=meanings, loc="upper right", fontsize=8)


def _draw_accuracy(panels: list[Axes], run: Run) -> None:
    for axes, name in zip(panels, SCENARIOS, strict=True):
        row = next(row for row in run.rows if row.scenario == name)
        for strategy, method in METHOD.items():
            own = _first(run.curves, strategy, name)
            each = COMPUTE + row.seconds(method)
            times = own.elapsed if strategy == "asp" else [step * each for step in own.steps]
            values = own.accuracies(strategy == "ds-sync")
            axes.plot(times, [100 * value for value in values], color=COLOURS[method], label=LABELS[method])
        axes.set_title(f"Table {SCENARIOS[name].table}: {name}")
        axes.set_xlabel("simulated seconds")
    panels[0].set_ylabel("accuracy, %")
    panels[0].legend(loc="lower right", fontsize=8)


def _first(curves: list[Curve], strategy: str, scenario: str) -> Curve:
    """The first seed's run in the scenario, or in the static one where only time differs."""
    own = [one for one in curves if one.strategy == strategy]
    return next((one for one in own if one.scenario == scenario), own[0])
