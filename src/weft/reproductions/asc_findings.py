"""What was found about ASC-WFBP, as tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from weft.reproductions import asc, asc_paper, asc_program, asc_readings, asc_workloads
from weft.reproductions.asc import Row
from weft.reproductions.asc_paper import PAPER
from weft.reproductions.asc_readings import Spread
from weft.reproductions.asc_reasons import asc_reasons
from weft.reproductions.findings import Findings, Steps, Table


@dataclass(frozen=True, slots=True)
class Run:
    """All that was computed."""

    rows: list[Row]
    alone: list[Row]
    """the same, computing as on one GPU"""
    slownesses: list[Spread]
    spreads: list[Spread]
    program: list[Spread]
    link: list[Row]


def asc_run(steps: Steps) -> Run:
    """The tables, and the other readings."""
    with steps("Tables III to V") as progress:
        rows = asc.rows(progress)
    with steps("computing as on one GPU") as progress:
        alone = asc.rows(progress, slower=1.0)
    with steps("other times of computing") as progress:
        slownesses = asc_readings.spreads(asc_workloads.slownesses(), progress)
    with steps("other times of gradients") as progress:
        spreads = asc_readings.spreads(asc_workloads.ways(), progress)
    with steps("as public programs decide") as progress:
        program = asc_program.program_spreads(progress)
    with steps("a link that is shared") as progress:
        link = asc_readings.link_rows(progress)
    return Run(rows, alone, slownesses, spreads, program, link)


def asc_findings(run: Run) -> Findings:
    """Tables III, IV, V, Figure 6 and the other readings, each with the paper's number beside ours."""
    reasons = tuple(asc_reasons(run.rows, run.alone, run.slownesses, run.spreads, run.program, run.link))
    tables = (
        _table_3(run.rows),
        _table_4(run.rows, "Table IV"),
        _table_4(run.alone, "Table IV, computing as on one GPU"),
        _table_5(run.rows),
        _figure_6(run.rows),
        _spreads(
            "Other readings: all four compute ... as long as on one GPU (seconds, and how far off)", run.slownesses
        ),
        _spreads(
            "Other readings: the backward pass spread over gradients by ... (seconds, and how far off)", run.spreads
        ),
        _spreads(
            "Other readings: as public programs decide, with a of 32 workers, computing as on one GPU", run.program
        ),
        _link(run.link),
    )
    return Findings("ASC-WFBP, Section VI, made again", _numbers(run), tables, reasons, _document(run, reasons))


def _table_3(rows: list[Row]) -> Table:
    return Table(
        "Table III: models (paper / ours), how long their passes take (seconds), and by how much that is more than on one GPU",
        ("model", "tensors", "", "parameters", "", "t_f", "t_b", "more", "from"),
        tuple(
            (
                row.name, str(PAPER[row.name].tensors), str(row.tensors), f"~{PAPER[row.name].millions} M",
                f"{row.parameters:,}", f"{row.forward:.3f}", f"{row.backward:.3f}",
                f"{row.compute / row.alone:.2f} x", _source(row.name),
            )
            for row in rows
        ),
        texts=(0, 8),
    )  # fmt: skip


def _source(name: str) -> str:
    if name in asc_paper.GIVEN:
        return "the text"
    return "Tables IV and V" if PAPER[name].saved is None else "Tables IV and V, the text on Figure 6"


def _table_4(rows: list[Row], title: str) -> Table:
    lines = []
    for row in rows:
        paper = PAPER[row.name]
        cells: list[str] = []
        for name in ("wfbp", "mg_wfbp", "asc_wfbp"):
            cells += [f"{getattr(paper, name):.3f}", f"{row.seconds[name]:.3f}"]
        cells.insert(2, f"{row.seconds['wfbp_by_layer']:.3f}")
        ratios = [f"{row.seconds[name] / row.seconds['asc_wfbp']:.2f}" for name in ("wfbp", "mg_wfbp", "one_bucket")]
        lines.append(
            (
                row.name, *cells, f"{row.off('asc_wfbp'):+.0%}", f"{paper.over_wfbp:.2f}", ratios[0],
                f"{paper.over_mg_wfbp:.2f}", ratios[1], f"{row.seconds['one_bucket']:.3f}", ratios[2],
                f"{row.seconds['search']:.3f}", f"{row.seconds['search_wide']:.3f}",
            )
        )  # fmt: skip
    return Table(
        f"{title}: seconds of a step (paper / ours), S1 and S2 as there; beside them one bucket, and search",
        (
            "model",
            "WFBP",
            "",
            "by layer",
            "MG",
            "",
            "ASC",
            "",
            "off",
            "S1",
            "",
            "S2",
            "",
            "one bucket",
            "/ASC",
            "search",
            "search, 8",
        ),
        tuple(lines),
    )


def _table_5(rows: list[Row]) -> Table:
    lines = []
    for row in rows:
        paper = PAPER[row.name]
        cells = [f"{paper.most_speedup:.1f}", f"{row.most_speedup:.1f}", f"{paper.speedup:.1f}"]
        for name in ("asc_wfbp", "search"):
            cells += [f"{row.speedup(name):.1f}", f"{row.speedup(name) / row.most_speedup:.1%}"]
        lines.append((row.name, *cells, f"{paper.speedup / paper.most_speedup:.1%}"))
    return Table(
        "Table V: speedup of 32 workers over one (paper / ours), and its part of S_max",
        ("model", "S_max", "", "S", "ASC", "of S_max", "search", "of S_max", "paper's part"),
        tuple(lines),
    )


def _figure_6(rows: list[Row]) -> Table:
    lines = []
    for row in rows:
        paper = PAPER[row.name]
        cells = [f"{row.compute:.3f}"]
        for name in ("wfbp", "mg_wfbp", "asc_wfbp"):
            cells += [f"{getattr(paper, name) - row.compute:.3f}", f"{row.exposed(name):.3f}"]
        lines.append((row.name, *cells, f"{row.exposed('search'):.3f}"))
    return Table(
        "Figure 6: computing and communication that nothing hides, seconds (paper: Table IV less computing / ours)",
        ("model", "computing", "WFBP", "", "MG", "", "ASC", "", "search"),
        tuple(lines),
    )


def _spreads(title: str, found: list[Spread]) -> Table:
    lines = []
    for spread in found:
        cells: list[str] = []
        for name in PAPER:
            for scheduler in ("mg_wfbp", "asc_wfbp"):
                cells += [f"{getattr(spread, scheduler)[name]:.3f}", f"{spread.off(name, scheduler):+.0%}"]
        lines.append((spread.how, *cells))
    stated = [cell for p in PAPER.values() for cell in (f"{p.mg_wfbp:.3f}", "", f"{p.asc_wfbp:.3f}", "")]
    heads = (head for name in PAPER for head in (f"{name}: MG", "", "ASC", ""))
    return Table(title, ("by", *heads), (("the paper, measured", *stated), *lines))


def _link(rows: list[Row]) -> Table:
    return Table(
        "Other readings: the link carries what it can (two at once hide their starts, nothing else), seconds",
        ("model", "MG", "ASC", "search", "search, 8", "least"),
        tuple(
            (
                row.name,
                *(f"{row.seconds[n]:.3f}" for n in ("mg_wfbp", "asc_wfbp", "search", "search_wide")),
                f"{row.least:.3f}",
            )
            for row in rows
        ),
    )


def _numbers(run: Run) -> Table:
    rows: list[tuple[str, ...]] = []
    for row in run.rows:
        paper = PAPER[row.name]
        asc_seconds = row.seconds["asc_wfbp"]
        ahead = (
            "ahead of both" if asc_seconds < min(row.seconds["wfbp"], row.seconds["mg_wfbp"]) else "not ahead of both"
        )
        near = "within 15%" if abs(row.off("asc_wfbp")) <= 0.15 else "not within 15%"
        rows += [
            (f"{row.name}: ASC-WFBP, seconds", f"{paper.asc_wfbp:.3f}", f"{asc_seconds:.3f}", f"{ahead}; {near}"),
            ("... over one bucket (paper: over MG)", f"{paper.over_mg_wfbp:.2f}",
             f"{row.seconds['one_bucket'] / asc_seconds:.2f}", "the paper's MG-WFBP is as slow as one bucket"),
            ("... search over ASC-WFBP, two at once", "-", f"{asc_seconds / row.seconds['search']:.3f}", "the same network"),
        ]  # fmt: skip
    return Table("The paper's numbers beside ours", ("", "paper", "ours", "how"), tuple(rows), texts=(0, 3))


def _document(run: Run, reasons: tuple[str, ...]) -> dict[str, Any]:
    return {
        "name": "asc",
        "network": {"a": asc_paper.A, "b": asc_paper.B, "gamma": asc_paper.GAMMA, "workers": asc_paper.WORKERS},
        "paper": {name: asdict(paper) for name, paper in PAPER.items()},
        "ours": {
            row.name: {
                **asdict(row), "speedup": {n: row.speedup(n) for n in asc.SCHEDULERS},
                "exposed": {n: row.exposed(n) for n in asc.SCHEDULERS},
            }
            for row in run.rows
        },
        "ours_computing_as_on_one_gpu": {row.name: asdict(row) for row in run.alone},
        "slownesses": [asdict(spread) for spread in run.slownesses],
        "spreads": [asdict(spread) for spread in run.spreads],
        "public_programs": [asdict(spread) for spread in run.program],
        "shared_link": {row.name: asdict(row) for row in run.link},
        "explanation": list(reasons),
    }  # fmt: skip
