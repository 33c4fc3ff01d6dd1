"""A paper's figures, made again: the paper's number beside ours, and why they differ.

weft reproduce rat                Figures 4 and 5 of RAT (Wan et al. 2020)
weft reproduce rat -o rat.html    the same as a page with pictures
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weft.cli.arguments import add_json
from weft.cli.output import note_first_run, print_json, print_line, print_table, progress
from weft.errors import InputError

NAMES = ("rat",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help=f"of the paper: {', '.join(NAMES)}")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a page (.html) or the pictures alone (.svg, .png)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    if args.name not in NAMES:
        raise InputError(f"there is nothing to reproduce called {args.name!r}: there is {', '.join(NAMES)}")
    note_first_run()
    from weft.reproductions import rat

    with progress("Figure 4") as report:
        oversubscribed = rat.figure_4(report)
    with progress("Figure 5") as report:
        paused = rat.figure_5(report)
    found = rat.summary(oversubscribed, paused)
    reasons = list(rat.explanation(found))
    if args.output:
        from weft.report.rat_page import save_rat

        save_rat(Path(args.output), oversubscribed, paused, _numbers(found), reasons)
    if args.json:
        print_json({
            "name": "rat", "paper": rat.PAPER, "ours": found, "figure_4": [asdict(row) for row in oversubscribed],
            "figure_5": [asdict(row) for row in paused], "explanation": reasons,
        })  # fmt: skip
        return
    print_line("Figure 4: 97 MB, 2 spines, 4 leaves, oversubscribed (milliseconds)")
    print_table(rows_of_figure_4(oversubscribed), right=range(9))
    print_line()
    print_line("Figure 5: 64 servers, 2 racks, 40 Gbit/s, k paused nodes (times longer than without pauses)")
    print_table(rows_of_figure_5(paused), right=range(1, 5))
    print_line()
    print_table(_numbers(found), right=(1, 2))
    for reason in reasons:
        print_line()
        print_line(reason)


def rows_of_figure_4(rows: list[Any]) -> list[list[str]]:
    head = ["Gbit/s", "ratio", "workers", "PS", "ring", "RAT", "RAT x2", "PS/RAT", "ring/RAT x2"]
    table = [head]
    for row in rows:
        times = (row.parameter_server, row.ring, row.rat, row.rat_pipelined)
        ratios = (row.parameter_server / row.rat, row.ring / row.rat_pipelined)
        table.append(
            [
                str(row.gbit),
                f"{row.ratio}:1",
                str(row.workers),
                *(f"{t * 1e3:.1f}" for t in times),
                *(f"{r:.2f}" for r in ratios),
            ]
        )
    return table


def rows_of_figure_5(rows: list[Any]) -> list[list[str]]:
    names = {"stream": "one at a time", "shared": "all that are ready"}
    table = [["messages of a channel", "k", "PS", "ring", "RAT"]]
    for row in rows:
        table.append(
            [names[row.channel], str(row.paused), *(f"{x:.2f}" for x in (row.parameter_server, row.ring, row.rat))]
        )
    return table


def _numbers(found: dict[str, float]) -> list[list[str]]:
    """The paper's numbers beside ours."""
    return [
        ["", "paper", "ours"],
        ["PS / RAT, average of Figure 4", "25", f"{found['ps_over_rat']:.1f}"],
        ["settings in which RAT is ahead of PS", "all", f"{found['rat_ahead_of_ps']:.0%}"],
        ["settings in which RAT is ahead of ring", "many", f"{found['rat_ahead_of_ring']:.0%}"],
        ["... in two segments", "-", f"{found['pipelined_rat_ahead_of_ring']:.0%}"],
        ["ring / RAT, average of Figure 4", "1.16", f"{found['ring_over_rat']:.2f}"],
        ["... RAT in two segments", "-", f"{found['ring_over_pipelined_rat']:.2f}"],
        ["ring, worst slowdown of Figure 5", "12", f"{found['ring_slowdown']:.1f}"],
        ["ring / RAT slowdown, average of Figure 5", "5.7", f"{found['ring_over_rat_paused']:.1f}"],
        ["... if ready messages share a channel", "-", f"{found['ring_over_rat_paused_shared']:.1f}"],
    ]
