"""What was found about DS-Sync, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weft.groups import divide_and_shuffle, pattern_table
from weft.reproductions import ds_sync, ds_sync_training
from weft.reproductions.ds_sync import ITERATIONS, LABELS, METHODS, SCENARIOS, Row, paper_speedups
from weft.reproductions.ds_sync_reasons import ds_sync_reasons
from weft.reproductions.ds_sync_training import Convergence, Curve, convergence, target_of
from weft.reproductions.fashion import checked_folder
from weft.reproductions.findings import Findings, Steps, Table

STRATEGY = {"ar": "bsp", "gossip": "gossip", "asp": "asp", "ds-sync": "ds-sync"}


@dataclass(frozen=True, slots=True)
class Run:
    """All that was computed; ``curves`` only if it was trained."""

    rows: list[Row]
    curves: list[Curve]


def ds_sync_run(steps: Steps, train: bool = False, seeds: int = 5, folder: Path | None = None) -> Run:
    """Communication of every method, and training if it is wanted."""
    with steps("communication times") as progress:
        rows = ds_sync.rows(progress)
    if not train:
        return Run(rows, [])
    where = checked_folder(folder, seeds)
    with steps("training") as progress:
        return Run(rows, ds_sync_training.curves(where, range(seeds), progress=progress))


def ds_sync_findings(run: Run) -> Findings:
    """Tables III to V, each with the paper's numbers beside ours."""
    tables = [_communication(name, run.rows) for name in SCENARIOS]
    converged = _converged(run) if run.curves else []
    tables += [_convergence(name, converged, run.curves) for name in SCENARIOS] if run.curves else []
    reasons = (*ds_sync_reasons(run.rows, converged), _pattern())
    return Findings(
        "DS-Sync, Section V, made again",
        _numbers(run.rows, converged),
        tuple(tables),
        reasons,
        _document(run, converged, reasons),
    )


def _communication(name: str, rows: Sequence[Row]) -> Table:
    scenario = SCENARIOS[name]
    own = [row for row in rows if row.scenario == name]
    lines = []
    for place, method in enumerate(METHODS):
        stated = paper_speedups(scenario, method)
        cells = [LABELS[method], f"{scenario.milliseconds['cifar10'][place]:.1f}", _span(stated)]
        for row in own:
            cells += [f"{1e3 * row.seconds(method):.1f}", f"{row.speedup(method):.2f}"]
        lines.append(tuple(cells))
    plans = [cell for row in own for cell in (f"{1e3 * row.planned:.1f}", f"{row.seconds('ar') / row.planned:.2f}")]
    bounds = [cell for row in own for cell in _bound(row)]
    lines += [("exact, planned", "-", "-", *plans), ("exact, bound", "-", "-", *bounds)]
    heads = [head for row in own for head in (_reading(row, "ms"), "AR/x")]
    return Table(
        f"Table {scenario.table}: {scenario.about}: communication of CIFAR-10's model (paper's AR/x: of all four models)",
        ("method", "paper, ms", "AR/x", *heads),
        tuple(lines),
    )


def _bound(row: Row) -> tuple[str, str]:
    """It is that of links of which half is left; against a flow that shares fairly, one may do better."""
    if row.reading == "flow":
        return "-", "-"
    return f"{1e3 * row.bound:.1f}", f"{row.seconds('ar') / row.bound:.2f}"


def _reading(row: Row, what: str) -> str:
    if SCENARIOS[row.scenario].flow is None:
        return f"ours, {what}"
    return f"ours, {what} ({'takes half' if row.reading == 'half' else 'one flow'})"


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _converged(run: Run) -> list[Convergence]:
    found: list[Convergence] = []
    for name in SCENARIOS:
        row = next(row for row in run.rows if row.scenario == name)
        for strategy in STRATEGY.values():
            ways = (False, True) if strategy != "asp" else (False,)
            found += [convergence(run.curves, strategy, name, ensemble, row) for ensemble in ways]
    return found


def _convergence(name: str, converged: Sequence[Convergence], found: Sequence[Curve]) -> Table:
    scenario = SCENARIOS[name]
    base = next(c for c in converged if c.scenario == name and c.strategy == "bsp" and not c.ensemble)
    lines = []
    for method, strategy in STRATEGY.items():
        for one in (c for c in converged if c.scenario == name and c.strategy == strategy):
            stated = scenario.accuracy[method]
            iterations, time = ITERATIONS.get(method), one.mean_seconds
            lines.append(
                (
                    LABELS[method] + (" + ensemble" if one.ensemble else ""),
                    f"{stated[0]:.2f} ± {stated[1]:.2f}", f"{100 * one.accuracy:.2f} ± {100 * one.deviation:.2f}",
                    _ratio(iterations, ITERATIONS["ar"]), _ratio(one.mean_steps, base.mean_steps),
                    "-" if time is None else f"{time:.0f}", _ratio(base.mean_seconds, time),
                )
            )  # fmt: skip
    seeds = len({curve.seed for curve in found})
    return Table(
        f"Table {scenario.table}: convergence (CIFAR-10; ours: Fashion-MNIST, {seeds} seeds, target {target_of(found):.2%})",
        ("method", "paper, best", "ours, best", "paper, iterations/AR", "ours", "seconds to target", "AR/x"),
        tuple(lines),
    )


def _ratio(one: float | None, other: float | None) -> str:
    return "-" if one is None or other is None else f"{one / other:.2f}"


def _numbers(rows: Sequence[Row], converged: Sequence[Convergence]) -> Table:
    lines = []
    for row in rows:
        scenario = SCENARIOS[row.scenario]
        stated = paper_speedups(scenario, "ds-sync")
        rivals = all(row.seconds("ds-sync") < row.seconds(method) for method in METHODS if method != "ds-sync")
        how = "ahead of all the paper's others" if rivals else "not ahead of all others"
        name = f"Table {scenario.table}: DS-Sync over all-reduce{_reading(row, '')[6:] if scenario.flow else ''}"
        lines.append((name, _span(stated), f"{row.speedup('ds-sync'):.2f}", how))
    for name in SCENARIOS if converged else ():
        found = {(c.strategy, c.ensemble): c for c in converged if c.scenario == name}
        bsp, ours = found["bsp", False], found["ds-sync", True]
        paper = SCENARIOS[name].accuracy
        lines.append(
            (
                f"Table {SCENARIOS[name].table}: DS-Sync's best accuracy less BSP's, points",
                f"{paper['ds-sync'][0] - paper['ar'][0]:+.2f}", f"{100 * (ours.accuracy - bsp.accuracy):+.2f}",
                f"iterations to the target: {_ratio(ours.mean_steps, bsp.mean_steps)} of BSP's",
            )
        )  # fmt: skip
    return Table("The paper's numbers beside ours", ("", "paper", "ours", "how"), tuple(lines), texts=(0, 3))


def _pattern() -> str:
    scenario = SCENARIOS["inter-rack and end-host"]
    pattern = divide_and_shuffle(scenario.network, scenario.slow_workers, scenario.slow_uplinks)
    return "The pattern of Table III.\n" + pattern_table(pattern, scenario.network.workers)


def _document(run: Run, converged: Sequence[Convergence], reasons: Sequence[str]) -> dict[str, Any]:
    return {
        "name": "ds-sync",
        "paper": {name: asdict(scenario) for name, scenario in SCENARIOS.items()},
        "ours": [
            {
                "scenario": row.scenario, "reading": row.reading, "undivided_seconds": row.undivided,
                "planned_seconds": row.planned, "plan": row.plan, "bound_seconds": row.bound,
                "seconds": {method: row.seconds(method) for method in METHODS},
                "speedup": {method: row.speedup(method) for method in METHODS},
                "times": {name: asdict(time) for name, time in row.times.items()},
            }
            for row in run.rows
        ],
        "convergence": [
            asdict(one) | {"accuracy": one.accuracy, "deviation": one.deviation, "mean_steps": one.mean_steps}
            for one in converged
        ],
        "curves": [asdict(curve) for curve in run.curves],
        "explanation": list(reasons),
    }  # fmt: skip
