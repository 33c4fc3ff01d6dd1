"""What was found about RAT, as tables and texts."""

from __future__ import annotations

from dataclasses import asdict

from weft.reproductions import rat
from weft.reproductions.findings import Findings, Table

_CHANNELS = {"stream": "one at a time", "shared": "all that are ready"}


def rat_findings(oversubscribed: list[rat.Oversubscribed], paused: list[rat.Paused]) -> Findings:
    """Figures 4 and 5, and the four numbers of the paper."""
    found = rat.summary(oversubscribed, paused)
    reasons = tuple(rat.explanation(found))
    document = {
        "name": "rat", "paper": rat.PAPER, "ours": found, "figure_4": [asdict(row) for row in oversubscribed],
        "figure_5": [asdict(row) for row in paused], "explanation": list(reasons),
    }  # fmt: skip
    tables = (_figure_4(oversubscribed), _figure_5(paused))
    return Findings("RAT, Section 4, made again", _numbers(found), tables, reasons, document)


def _figure_4(rows: list[rat.Oversubscribed]) -> Table:
    lines = []
    for row in rows:
        times = (row.parameter_server, row.ring, row.rat, row.rat_pipelined)
        ratios = (row.parameter_server / row.rat, row.ring / row.rat_pipelined)
        cells = [f"{t * 1e3:.1f}" for t in times] + [f"{r:.2f}" for r in ratios]
        lines.append((str(row.gbit), f"{row.ratio}:1", str(row.workers), *cells))
    return Table(
        "Figure 4: 97 MB, 2 spines, 4 leaves, oversubscribed (milliseconds)",
        ("Gbit/s", "ratio", "workers", "PS", "ring", "RAT", "RAT x2", "PS/RAT", "ring/RAT x2"),
        tuple(lines),
        texts=(),
    )


def _figure_5(rows: list[rat.Paused]) -> Table:
    return Table(
        "Figure 5: 64 servers, 2 racks, 40 Gbit/s, k paused nodes (times longer than without pauses)",
        ("messages of a channel", "k", "PS", "ring", "RAT"),
        tuple(
            (_CHANNELS[row.channel], str(row.paused), *(f"{x:.2f}" for x in (row.parameter_server, row.ring, row.rat)))
            for row in rows
        ),
    )


def _numbers(found: dict[str, float]) -> Table:
    rows = (
        ("PS / RAT, average of Figure 4", "25", f"{found['ps_over_rat']:.1f}"),
        ("settings in which RAT is ahead of PS", "all", f"{found['rat_ahead_of_ps']:.0%}"),
        ("settings in which RAT is ahead of ring", "many", f"{found['rat_ahead_of_ring']:.0%}"),
        ("... in two segments", "-", f"{found['pipelined_rat_ahead_of_ring']:.0%}"),
        ("ring / RAT, average of Figure 4", "1.16", f"{found['ring_over_rat']:.2f}"),
        ("... RAT in two segments", "-", f"{found['ring_over_pipelined_rat']:.2f}"),
        ("ring, worst slowdown of Figure 5", "12", f"{found['ring_slowdown']:.1f}"),
        ("ring / RAT slowdown, average of Figure 5", "5.7", f"{found['ring_over_rat_paused']:.1f}"),
        ("... if ready messages share a channel", "-", f"{found['ring_over_rat_paused_shared']:.1f}"),
    )
    return Table("The paper's numbers beside ours", ("", "paper", "ours"), rows)
