"""What was found about SparDL, as tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from weft.reproductions import spardl
from weft.reproductions.fashion import checked_folder
from weft.reproductions.findings import Findings, Steps, Table
from weft.reproductions.spardl import MESSAGES, MODELS, RIVALS, Count, Timing
from weft.reproductions.spardl_reasons import spardl_reasons
from weft.reproductions.spardl_training import Accuracy, Training, accuracies, figure_8
from weft.units import format_seconds

PAPER_RANGE = (1.2, 3.7)
"""How many times faster than the rivals a step is, over all models."""


@dataclass(frozen=True, slots=True)
class Run:
    """All that was computed."""

    counts: list[Count]
    models: list[Timing]
    workers: list[Timing]
    teams: list[Timing]
    trainings: list[Training] = field(default_factory=list)
    """only if somebody wanted them"""

    def timing(self, model: str, label: str) -> Timing:
        """Of a model on six workers."""
        return next(t for t in self.models if (t.model, t.label) == (model, label))

    def lead(self, workers: int, *but: str) -> float:
        """How many times faster than the fastest rival SparDL is, for VGG-16, some rivals left out."""
        those = {t.label: t.seconds for t in self.workers if t.workers == workers}
        return min(seconds for label, seconds in those.items() if label not in ("SparDL", *but)) / those["SparDL"]


def spardl_run(steps: Steps, train: bool = False, seeds: int = 3, folder: Path | None = None) -> Run:
    """The tables, counted and simulated, and training if it is wanted."""
    where = checked_folder(folder, seeds) if train else None
    with steps("Table 1") as progress:
        counts = spardl.counts(progress)
    with steps("Figure 7") as progress:
        teams = spardl.by_teams(progress)
    with steps("Table 3") as progress:
        models = spardl.by_model(progress)
    with steps("Figure 6") as progress:
        workers = spardl.by_workers(progress)
    if where is None:
        return Run(counts, models, workers, teams)
    with steps("Figure 8") as progress:
        return Run(counts, models, workers, teams, figure_8(where, range(seeds), progress=progress))


def spardl_findings(run: Run) -> Findings:
    """Table 1, Table 3, Figures 6 to 8, each with what the paper says beside ours."""
    found = accuracies(run.trainings)
    reasons = tuple(spardl_reasons(run.counts, run.models, run.workers, run.teams, found))
    tables = [_table_1(run.counts), _table_3(run), _small(run), _figure_6(run), _figure_7(run.teams)]
    tables += [_figure_8(found)] if found else []
    return Findings(
        "SparDL, Section 4, made again", _numbers(run, found), tuple(tables), reasons, _document(run, reasons)
    )


def _table_1(counts: list[Count]) -> Table:
    shown = [count for count in counts if count.workers in (4, 6, 8)]
    return Table(
        "Table 1: rounds, and numbers that come to a worker (formula / counted), with 5 of 100 elements kept; P = 4, 6 and 8",
        ("method", "P", "teams", "rounds", "", "numbers", "counted"),
        tuple(
            (
                count.method, str(count.workers), str(count.teams), f"{count.formula_rounds:g}", str(count.rounds),
                _span(count.formula_least, count.formula_most), _span(count.least, count.most),
            )
            for count in shown
        ),
    )  # fmt: skip


def _span(least: float, most: float) -> str:
    return f"{least:g}" if least == most else f"{least:.4g} to {most:.4g}"


def _table_3(run: Run) -> Table:
    lines = []
    for model, elements in MODELS.items():
        own = run.timing(model, "SparDL")
        for timing in (t for t in run.models if t.model == model):
            ratio = timing.seconds / own.seconds
            lines.append(
                (
                    model if timing.label == "dense" else "", f"{elements:,}" if timing.label == "dense" else "",
                    timing.label, format_seconds(timing.seconds), f"{timing.nbytes / 1e6:.3f}", f"{timing.kept:,.0f}",
                    f"{ratio:.1f}",
                )
            )  # fmt: skip
    return Table(
        "Table 3 and Figure 6 a to d: communication of one step on six workers, Gigabit Ethernet, density 1%",
        ("model", "elements", "method", "seconds", "MB sent", "elements kept", "/SparDL"),
        tuple(lines),
        texts=(0, 2),
    )


def _small(run: Run) -> Table:
    lines = []
    for label in (t.label for t in run.models if t.model == "resnet-20" and t.label != "dense"):
        timing = run.timing("resnet-20", label)
        lines.append((label, *(format_seconds(timing.by_message[message]) for message in MESSAGES)))
    return Table(
        "ResNet-20, by what a message takes at least (which the paper does not say)",
        ("method", *(format_seconds(message) if message else "nothing" for message in MESSAGES)),
        tuple(lines),
    )


def _figure_6(run: Run) -> Table:
    counted = sorted({t.workers for t in run.workers})
    labels = list(dict.fromkeys(t.label for t in run.workers))
    lines = []
    for label in sorted(labels, key=lambda name: name == "SparDL"):
        found = {t.workers: t.seconds for t in run.workers if t.label == label}
        lines.append((label, *(format_seconds(found[p]) if p in found else "-" for p in counted)))
    lead = [f"{run.lead(p, 'TopkA, Bruck', 'Ok-Topk, Bruck'):.2f}" for p in counted]
    lines += [("fastest rival / SparDL", *lead), ("... rivals by Bruck", *(f"{run.lead(p):.2f}" for p in counted))]
    return Table(
        "Figure 6 a, e, f: VGG-16 by the number of workers",
        ("method", *(f"{p} workers" for p in counted)),
        tuple(lines),
    )


def _figure_7(teams: list[Timing]) -> Table:
    alone = {t.model: t.seconds for t in teams if t.label == "1 team"}
    return Table(
        "Figure 7: SparDL in teams, on six workers",
        ("model", "teams", "seconds", "MB sent", "of one team"),
        tuple(
            (t.model, t.label, format_seconds(t.seconds), f"{t.nbytes / 1e6:.3f}", f"{t.seconds / alone[t.model]:.2f}")
            for t in teams
        ),
        texts=(0, 1),
    )


def _figure_8(found: list[Accuracy]) -> Table:
    epochs = range(1, len(found[0].by_epoch) + 1)
    return Table(
        f"Figure 8: accuracy in percent after every epoch (CIFAR-10; ours: a CNN on Fashion-MNIST, {found[0].seeds} seeds)",
        ("method", *(f"epoch {epoch}" for epoch in epochs), "±"),
        tuple((one.method, *(f"{value:.2f}" for value in one.by_epoch), f"{one.deviation:.2f}") for one in found),
    )


def _order(found: list[Accuracy]) -> tuple[str, str, str, str]:
    last = {one.method.removeprefix("SparDL-"): one.by_epoch[-1] for one in found if one.method.endswith("res")}
    ours = ", ".join(f"{name} {last[name]:.2f}" for name in sorted(last, key=lambda name: -last[name]))
    return "Figure 8: residuals, the best first", "gres", ours, "percent, after the last epoch"


def _numbers(run: Run, found: list[Accuracy]) -> Table:
    own = [count for count in run.counts if count.method.startswith("spardl")]
    ratios = [t.seconds / run.timing(t.model, "SparDL").seconds for t in run.models if t.label in RIVALS]
    plain = ("TopkA, Bruck", "Ok-Topk, Bruck")
    leads = {p: run.lead(p, *plain) for p in (4, 5, 6)}
    small = {label: run.timing("resnet-20", label).seconds for label in ("TopkA", "Ok-Topk", "SparDL")}
    two = {t.label: t.seconds for t in run.teams if t.model == "vgg-16"}
    slow = max((t for t in run.models if t.model == "vgg-16" and t.label in RIVALS), key=lambda t: t.seconds).label
    rows = [
        ("Table 1: SparDL's cases, P = 2 to 17, as the formulas say", "-",
         f"{sum(count.agrees for count in own)} of {len(own)}", "counted; B-SAG within its limits"),
        ("... rivals' cases, P = 2, 4, 8, 16", "-",
         f"{sum(c.agrees for c in run.counts) - sum(c.agrees for c in own)} of {len(run.counts) - len(own)}", "counted"),
        ("Table 3: a step is faster than rivals' by", f"{PAPER_RANGE[0]} to {PAPER_RANGE[1]}",
         f"{min(ratios):.1f} to {max(ratios):.1f}", "the paper: with computing; ours: communication alone"),
        ("Figure 6: the slowest rival, VGG-16", "TopkDSA", slow, "see below"),
        ("... ResNet-20: TopkA before Ok-Topk", "yes", "yes" if small["TopkA"] < small["Ok-Topk"] else "no", "see below"),
        ("... lead over the fastest rival, 4 / 5 / 6 workers", "grows beyond 4",
         " / ".join(f"{lead:.2f}" for lead in leads.values()), "VGG-16"),
        ("Figure 7: two teams, R-SAG, of one team's time", "a little faster",
         f"{two['2 teams, R-SAG'] / two['1 team']:.2f}", "VGG-16"),
        ("... three teams, B-SAG", "faster", f"{two['3 teams, B-SAG'] / two['1 team']:.2f}", "VGG-16"),
    ]  # fmt: skip
    rows += [_order(found)] if found else []
    return Table("What the paper says beside ours", ("", "paper", "ours", "how"), tuple(rows), texts=(0, 1, 3))


def _document(run: Run, reasons: tuple[str, ...]) -> dict[str, Any]:
    return {
        "name": "spardl",
        "network": {
            "bandwidth": spardl.RATE, "latency": 2 * spardl.LATENCY, "message_seconds": spardl.MESSAGE,
            "efficiency": spardl.EFFICIENCY,
        },
        "density": spardl.DENSITY,
        "table_1": [asdict(count) | {"agrees": count.agrees} for count in run.counts],
        "table_3": [_timed(timing) for timing in run.models],
        "figure_6": [_timed(timing) for timing in run.workers],
        "figure_7": [_timed(timing) for timing in run.teams],
        "figure_8": [asdict(training) for training in run.trainings],
        "explanation": list(reasons),
    }  # fmt: skip


def _timed(timing: Timing) -> dict[str, Any]:
    by_message = {f"{message:g}": seconds for message, seconds in timing.by_message.items()}
    return {
        "model": timing.model, "workers": timing.workers, "method": timing.label, "seconds": timing.seconds,
        "by_message_seconds": by_message, "bytes": timing.nbytes, "kept": timing.kept,
    }  # fmt: skip
