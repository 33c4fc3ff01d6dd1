"""Our counterparts of the tree-packing paper's seven numbers, each with the setting where it was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from weft.reproductions import packing_figure_6
from weft.reproductions.packing import GBITS, Row

Found = tuple[float, str]
"""A number and the setting that it is from."""

NEAREST = "(2,1,1,0)"
"""The distribution that comes out nearest to the paper's best case."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Ratios are the best baseline's time over ours; by Gbit/s where all workers are active."""

    largest: dict[int, Found]
    largest_simulated: dict[int, Found]
    smallest: dict[int, Found]
    least_possible: dict[int, Found]
    """the smallest that any packing of trees could reach"""
    mean: dict[int, float]
    over_server: float
    """the parameter server over ours where all links are alike, the largest"""
    nearest: Found
    nearest_simulated: Found
    partly: Found
    partly_simulated: Found
    sixth: Found
    overlap: Found
    printed_overlap: float
    quality: float
    """the worst proof of all packings: bound over value"""


def summary_of(all_active: list[Row], partly_active: list[Row], sixth: list[packing_figure_6.Row]) -> Summary:
    """The numbers of one run."""
    at = {gbit: [row for row in all_active if row.gbit == gbit] for gbit in GBITS}
    alike, slowest = max(GBITS), min(GBITS)
    nearest = next(row for row in partly_active if row.name == NEAREST and row.gbit == slowest)
    least = min(sixth, key=lambda row: row.ratio)
    overlap = max(partly_active, key=lambda row: row.overlap_gain)
    return Summary(
        {gbit: _largest(rows) for gbit, rows in at.items()},
        {gbit: _largest_simulated(rows) for gbit, rows in at.items()},
        {gbit: min((row.ratio, _where(row)) for row in rows) for gbit, rows in at.items()},
        {gbit: min((row.most, _where(row)) for row in rows) for gbit, rows in at.items()},
        {gbit: fmean(row.ratio for row in rows) for gbit, rows in at.items()},
        max(row.baselines["PS"] / row.pipelined for row in at[alike]),
        (nearest.ratio, _where(nearest)),
        _largest_simulated([nearest]),
        _largest(partly_active),
        _largest_simulated(partly_active),
        (least.ratio, f"{least.name}, {least.inside} inside"),
        (overlap.overlap_gain, _where(overlap)),
        max(1 - row.overlapped / row.separate for row in partly_active),
        min(row.quality for row in (*all_active, *partly_active)),
    )


def _largest(rows: Sequence[Row]) -> Found:
    return max((row.ratio, _where(row)) for row in rows)


def _largest_simulated(rows: Sequence[Row]) -> Found:
    """Of those that were simulated; 0 if none was."""
    simulated = [(row.simulated.baseline / row.simulated.ours, _where(row)) for row in rows if row.simulated]
    return max(simulated, default=(0.0, "not simulated"))


def _where(row: Row) -> str:
    return f"{row.name} at {row.gbit} Gbit/s"
