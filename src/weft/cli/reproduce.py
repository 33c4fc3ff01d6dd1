"""A paper's figures, made again: the paper's number beside ours, and why they differ.

weft reproduce rat                Figures 4 and 5 of RAT (Wan et al. 2020)
weft reproduce packing            Figures 4 to 7 of near-optimal tree packing (Zhang, Wu and Li 2021); takes some minutes
weft reproduce asc                Tables III to V and Figure 6 of ASC-WFBP (Shi, Chu and Li 2021)
weft reproduce ds-sync            Tables III to V of DS-Sync (Wang et al. 2023); with --train also accuracies, in an hour or more
weft reproduce spardl             Tables 1 and 3 and Figures 6 and 7 of SparDL (Zhao et al. 2024); with --train Figure 8, too
weft reproduce rat -o rat.html    the same as a page with pictures
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import add_json
from weft.cli.output import note_first_run, print_json, print_line, print_table, progress
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.report.findings_page import Picture
    from weft.reproductions.findings import Findings, Table

Drawn = Callable[[], "list[Picture]"]
"""Pictures are drawn only if somebody wants them."""
ENDINGS = (".html", ".svg", ".png")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=f"of the paper: {', '.join(REPRODUCTIONS)}")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a page (.html) or the pictures alone (.svg, .png)"
    )
    group = parser.add_argument_group("ds-sync and spardl")
    group.add_argument("--train", action="store_true", help="train, too, on Fashion-MNIST")
    group.add_argument("--seeds", metavar="N", type=int, help="so many trainings of every kind (default 5; spardl 3)")
    group.add_argument(
        "--data", metavar="FOLDER", help="Fashion-MNIST's files, if Debian's package has not put them in place"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    if args.name not in REPRODUCTIONS:
        raise InputError(f"there is nothing to reproduce called {args.name!r}: there is {', '.join(REPRODUCTIONS)}")
    output = Path(args.output) if args.output else None
    if output is not None and output.suffix.lower() not in ENDINGS:
        raise InputError(f"cannot draw {output}: the ending {output.suffix!r} is unknown; use {', '.join(ENDINGS)}")
    if args.train and args.name not in TRAINED:
        raise InputError(f"there is nothing to train for {args.name}: leave --train out")
    note_first_run()
    findings, pictures = REPRODUCTIONS[args.name](_training(args))
    if output is not None:
        from weft.report.findings_page import save_findings

        save_findings(output, findings, pictures())
    if args.json:
        print_json(findings.document)
        return
    for table in findings.tables:
        print_line(table.heading)
        _print(table)
        print_line()
    _print(findings.numbers)
    for reason in findings.reasons:
        print_line()
        print_line(reason)


def _print(table: Table) -> None:
    print_table([table.head, *table.rows], right=[i for i in range(len(table.head)) if i not in table.texts])


def _training(args: argparse.Namespace) -> dict[str, Any]:
    """What was said about training, for those that train."""
    if args.name not in TRAINED:
        return {}
    seeds = {} if args.seeds is None else {"seeds": args.seeds}
    return {"train": args.train, "folder": args.data and Path(args.data), **seeds}


def _rat(_: dict[str, Any]) -> tuple[Findings, Drawn]:
    from weft.reproductions import rat
    from weft.reproductions.rat_findings import rat_findings

    with progress("Figure 4") as report:
        oversubscribed = rat.figure_4(report)
    with progress("Figure 5") as report:
        paused = rat.figure_5(report)

    def pictures() -> list[Picture]:
        from weft.report.rat_page import rat_pictures

        return rat_pictures(oversubscribed, paused)

    return rat_findings(oversubscribed, paused), pictures


def _packing(_: dict[str, Any]) -> tuple[Findings, Drawn]:
    from weft.reproductions.packing_findings import packing_findings, packing_run

    found = packing_run(progress)

    def pictures() -> list[Picture]:
        from weft.report.packing_page import packing_pictures

        return packing_pictures(found)

    return packing_findings(found), pictures


def _asc(_: dict[str, Any]) -> tuple[Findings, Drawn]:
    from weft.reproductions.asc_findings import asc_findings, asc_run

    found = asc_run(progress)

    def pictures() -> list[Picture]:
        from weft.report.asc_page import asc_pictures

        return asc_pictures(found)

    return asc_findings(found), pictures


def _ds_sync(training: dict[str, Any]) -> tuple[Findings, Drawn]:
    from weft.reproductions.ds_sync_findings import ds_sync_findings, ds_sync_run

    found = ds_sync_run(progress, **training)

    def pictures() -> list[Picture]:
        from weft.report.ds_sync_page import ds_sync_pictures

        return ds_sync_pictures(found)

    return ds_sync_findings(found), pictures


def _spardl(training: dict[str, Any]) -> tuple[Findings, Drawn]:
    from weft.reproductions.spardl_findings import spardl_findings, spardl_run

    found = spardl_run(progress, **training)

    def pictures() -> list[Picture]:
        from weft.report.spardl_page import spardl_pictures

        return spardl_pictures(found)

    return spardl_findings(found), pictures


REPRODUCTIONS: dict[str, Callable[[dict[str, Any]], tuple[Findings, Drawn]]] = {
    "rat": _rat,
    "packing": _packing,
    "asc": _asc,
    "ds-sync": _ds_sync,
    "spardl": _spardl,
}
TRAINED = ("ds-sync", "spardl")
