"""A pattern as a small table: a line for every step, a column for the groups between racks and one for every rack."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.groups.consensus import consensus
from weft.groups.divide_and_shuffle import DivideAndShuffle
from weft.groups.racks import Rack
from weft.groups.rounds import Group, Pattern, Round

MOST_LINES = 12


def pattern_table(pattern: Pattern, names: Sequence[str] | None = None) -> str:
    """The groups of the first steps, and how fast all agree. ``names`` are those of the workers, by rank."""
    rows = [_head(pattern)]
    shown = min(pattern.period, MOST_LINES)
    rows += [[str(step), *_cells(pattern, pattern.round(step), names)] for step in range(shown)]
    if shown < pattern.period:
        rows.append(["..."] + [""] * (len(rows[0]) - 1))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    workers = f"{len(pattern.ranks)} worker{'s' * (len(pattern.ranks) != 1)}"
    title = f"{pattern.name}, {workers}, repeats after {pattern.period} step{'s' * (pattern.period != 1)}"
    return "\n".join([title, *lines, f"consensus: {consensus(pattern)}"])


def _head(pattern: Pattern) -> list[str]:
    if not isinstance(pattern, DivideAndShuffle):
        return ["step", "groups"]
    return ["step", "between racks", *(rack.name + _uplink(rack) for rack in pattern.racks)]


def _uplink(rack: Rack) -> str:
    if not rack.slow_uplink:
        return ""
    return " (slow uplink, by halves)" if rack.halved else " (slow uplink)"


def _cells(pattern: Pattern, now: Round, names: Sequence[str] | None) -> list[str]:
    marked = {rank for rack in pattern.racks for rank in rack.slow} if isinstance(pattern, DivideAndShuffle) else set()

    def name(rank: int) -> str:
        return (str(rank) if names is None else names[rank]) + "*" * (rank in marked)

    if now.sends:
        return [" ".join(f"{name(source)}>{name(destination)}" for source, destination in now.sends)]
    if not isinstance(pattern, DivideAndShuffle):
        return [_joined(now.groups, name)]
    cells = []
    homes = [[group for group in now.groups if set(group) <= set(rack.ranks)] for rack in pattern.racks]
    inside = [group for groups in homes for group in groups]
    away = [group for group in now.groups if group not in inside]
    for groups in (away, *homes):
        cells.append(_joined(groups, name))
    return cells


def _joined(groups: Sequence[Group], name: Callable[[int], str]) -> str:
    return " | ".join(" ".join(map(name, group)) for group in groups) or "-"
