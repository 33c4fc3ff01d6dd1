"""What was found about tree packing, as tables and numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from weft.reproductions import packing, packing_figure_6, packing_readings
from weft.reproductions.findings import Findings, Steps, Table
from weft.reproductions.packing import GBITS, PAPER, Row
from weft.reproductions.packing_reasons import packing_reasons
from weft.reproductions.packing_summary import Summary, summary_of

_BELOW = [gbit for gbit in GBITS if gbit < max(GBITS)]


@dataclass(frozen=True, slots=True)
class Run:
    """All that was computed."""

    all_active: list[Row]
    partly_active: list[Row]
    figure_6: list[packing_figure_6.Row]
    readings: list[packing_readings.Reading]
    idle: dict[str, float]
    dgx1: dict[int, tuple[float, float]]


def packing_run(steps: Steps) -> Run:
    """Compute Figures 4 to 7 and the other readings."""
    with steps("Figure 4") as progress:
        all_active = packing.figure_4(progress)
    with steps("Figures 5 and 7") as progress:
        partly_active = packing.figure_5(progress)
    with steps("Figure 6") as progress:
        sixth = packing_figure_6.figure_6(progress)
    with steps("other readings") as progress:
        readings = packing_readings.shared_link_readings(progress)
    idle = packing_readings.idle_readings(partly_active)
    return Run(all_active, partly_active, sixth, readings, idle, packing_readings.dgx1_readings())


def packing_findings(run: Run) -> Findings:
    """Four figures, the other readings, and the seven numbers of the paper."""
    found = summary_of(run.all_active, run.partly_active, run.figure_6)
    reasons = tuple(packing_reasons(found, run.readings, run.idle, run.dgx1))
    tables = (
        _times("Figure 4: 1.33 GB, all workers active (milliseconds)", run.all_active),
        _times("Figure 5: 1.33 GB, 4x4, some workers active (milliseconds)", run.partly_active),
        _figure_6(run.figure_6),
        _figure_7(run.partly_active),
        _readings(run.readings),
    )
    document = _document(run, found, reasons)
    return Findings("Tree packing, Section VI, made again", _numbers(found), tables, reasons, document)


def _times(heading: str, rows: list[Row]) -> Table:
    head = (
        "active", "Gbit/s", *packing.BASELINES, "ours (3)", "ours (8)", "ours", "best/ours", "at most", "simulated",
        f"at {packing.LATENCY * 1e6:g} us", "segments",
    )  # fmt: skip
    lines = []
    for row in rows:
        run = row.simulated
        times = (*row.baselines.values(), row.separate, row.overlapped, row.pipelined)
        simulated = (
            (f"{run.baseline / run.ours:.2f}", f"{run.baseline_latency / run.ours_latency:.2f}", str(run.segments))
            if run
            else ("-", "-", "-")
        )
        cells = (*(f"{t * 1e3:.1f}" for t in times), f"{row.ratio:.2f}", f"{row.most:.2f}", *simulated)
        lines.append((row.name, str(row.gbit), *cells))
    return Table(heading, head, tuple(lines))


def _figure_6(rows: list[packing_figure_6.Row]) -> Table:
    lines = []
    for row in rows:
        times = (row.best_pinned, row.best, row.ours, row.bound)
        ratios = (f"{row.ratio:.2f}", f"{row.most:.2f}")
        lines.append((row.inside, row.name, str(row.workers), *(f"{t * 1e3:.2f}" for t in times), *ratios))
    return Table(
        "Figure 6: 1.33 GB, 8x8, 100 Gbit/s everywhere (milliseconds)",
        ("inside", "active", "workers", "best, one way", "best, spread", "ours", "bound", "best/ours", "at most"),
        tuple(lines),
        texts=(0, 1),
    )


def _figure_7(rows: list[Row]) -> Table:
    lines = []
    for row in rows:
        printed = 1 - row.overlapped / row.separate
        lines.append((row.name, str(row.gbit), *(f"{_nought(gain):.1%}" for gain in (printed, row.overlap_gain))))
    return Table(
        "Figure 7: 4x4, time that overlapping reductions and broadcasts saves",
        ("active", "Gbit/s", "(8) as printed", "stages of any length"),
        tuple(lines),
    )


def _nought(gain: float) -> float:
    """Differences below what packings are proved to are none."""
    return 0.0 if abs(gain) < 2 * packing.GAP else gain


def _readings(rows: list[packing_readings.Reading]) -> Table:
    lines = []
    for row in rows:
        ratios = [_ratio(row.ratios[gbit], row.most[gbit]) for gbit in GBITS]
        unpipelined = " ".join(f"{row.unpipelined[gbit]:.2f}" for gbit in GBITS)
        active = "(" + ",".join(map(str, row.active)) + ")"
        lines.append((row.between, active, *ratios, unpipelined, f"{row.over_server:.2f}"))
    return Table(
        "Other readings: best baseline / ours (no trees do better), if between machines there is one link for each ...",
        ("one for each", "active", *(f"{gbit} Gbit/s" for gbit in GBITS), "baselines unpipelined", "PS/ours at 100"),
        tuple(lines),
        texts=(0, 1),
    )


def _ratio(found: float, most: float) -> str:
    return f"{found:.2f}" if most < 1.01 * found else f"{found:.2f} (at most {most:.2f})"


def _numbers(found: Summary) -> Table:
    rows: list[tuple[str, ...]] = []
    for gbit in _BELOW:
        stated = f"{PAPER[f'all_active_{gbit}']:g}"
        most, simulated = found.largest[gbit], found.largest_simulated[gbit]
        rows += [
            (
                f"all active, {gbit} Gbit/s: best baseline / ours, largest",
                stated,
                *_cell(most, "packing, proved optimal"),
            ),
            ("... both simulated", "-", *_cell(simulated, "forest, transfer by transfer")),
            ("... mean of the six sizes", "-", f"{found.mean[gbit]:.2f}", "packings"),
            ("... smallest", "-", *_cell(found.smallest[gbit], "packing, proved optimal")),
        ]
    rows += [
        ("all active, 100 Gbit/s: PS / ours", "1", f"{found.over_server:.2f}", "packings, all six sizes"),
        ("partly active: best baseline / ours, (2,1,1,0) at 10 Gbit/s", "18.3", *_cell(found.nearest, "packing")),
        ("... both simulated", "-", *_cell(found.nearest_simulated, "forest, transfer by transfer")),
        ("... largest", "18.3", *_cell(found.partly, "packing, proved optimal")),
        ("... both simulated", "-", *_cell(found.partly_simulated, "forest, transfer by transfer")),
        ("Figure 6: best baseline / ours, smallest", "1.44", *_cell(found.sixth, "forest made by hand")),
        ("overlap saves at most, stages of any length", "30%", *_cell(found.overlap, "packings", percent=True)),
        ("... formulation (8) as printed", "30%", f"{_nought(found.printed_overlap):.1%}", "packings"),
    ]
    return Table("The paper's numbers beside ours", ("", "paper", "ours", "how"), tuple(rows), texts=(0, 3))


def _cell(found: tuple[float, str], how: str, percent: bool = False) -> tuple[str, str]:
    """A number, and where and how it was found."""
    value, where = found
    return f"{value:.1%}" if percent else f"{value:.2f}", f"{where}; {how}"


def _document(run: Run, found: Summary, reasons: tuple[str, ...]) -> dict[str, Any]:
    def rows(found: list[Row]) -> list[dict[str, Any]]:
        return [{**asdict(row), "ratio": row.ratio, "most": row.most} for row in found]

    return {
        "name": "packing",
        "paper": PAPER,
        "ours": asdict(found),
        "figure_4": rows(run.all_active),
        "figure_5": rows(run.partly_active),
        "figure_6": [{**asdict(row), "ratio": row.ratio, "most": row.most} for row in run.figure_6],
        "figure_7": [
            {"name": row.name, "gbit": row.gbit, "printed": 1 - row.overlapped / row.separate, "any": row.overlap_gain}
            for row in run.partly_active
        ],
        "readings": [asdict(reading) for reading in run.readings],
        "idle_take_part": run.idle,
        "dgx1_inside": {gbit: {"spread": a, "one_way": b} for gbit, (a, b) in run.dgx1.items()},
        "explanation": list(reasons),
    }
