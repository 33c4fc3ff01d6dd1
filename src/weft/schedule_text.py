"""Schedules as text: a few header lines and one line per transfer, which parse back to the same schedule.

weft schedule 1
workers 3
chunks 1 1 1
0>1 reduce 0
1>2 reduce 0-1
"""

from __future__ import annotations

import re

import numpy as np

from weft.errors import ScheduleError
from weft.schedule import OPS, Schedule

_FIRST = "weft schedule 1"
_LINE = re.compile(r"(\d+)>(\d+) (reduce|copy) (\d+)(?:-(\d+))?")


def text_of(schedule: Schedule) -> str:
    """The text of a schedule."""
    lines = [_FIRST, f"name {schedule.name}", f"workers {schedule.workers}"]
    if len(schedule.participants) < schedule.workers:
        lines.append("participants " + " ".join(map(str, schedule.participants)))
    lines.append("chunks " + " ".join(map(str, schedule.chunk_weights.tolist())))
    columns = (schedule.source, schedule.destination, schedule.chunk, schedule.op, schedule.span)
    for source, destination, chunk, op, span in zip(*(column.tolist() for column in columns), strict=True):
        chunks = chunk if span == 1 else f"{chunk}-{chunk + span - 1}"
        lines.append(f"{source}>{destination} {OPS[op]} {chunks}")
    return "\n".join(lines) + "\n"


def schedule_of(text: str) -> Schedule:
    """The schedule of a text; an error names the line."""
    lines = [line.strip() for line in text.splitlines()]
    if not lines or lines[0] != _FIRST:
        raise ScheduleError(f"line 1: a schedule begins with {_FIRST!r}")
    headers: dict[str, str] = {}
    rows: list[tuple[int, int, int, int, int]] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match:
            source, destination, chunk = int(match[1]), int(match[2]), int(match[4])
            last = int(match[5]) if match[5] else chunk
            rows.append((source, destination, chunk, OPS.index(match[3]), last - chunk + 1))
            continue
        key, _, value = line.partition(" ")
        if key not in ("name", "workers", "participants", "chunks") or rows:
            raise ScheduleError(f"line {number}: {line!r} is not a transfer such as '0>1 reduce 3'")
        headers[key] = value
    for key in ("workers", "chunks"):
        if not headers.get(key, "").strip():
            raise ScheduleError(f"the schedule has no line {key!r} with numbers")
    try:
        numbers = {key: [int(word) for word in headers[key].split()] for key in headers if key != "name"}
        table = np.array(rows, dtype=np.int32).reshape(-1, 5)
    except (ValueError, OverflowError) as error:
        raise ScheduleError(f"a header or a transfer has something else than numbers: {error}") from error
    try:
        return Schedule.of(
            numbers["workers"][0], numbers["chunks"], table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 4],
            numbers.get("participants"), headers.get("name", "schedule"),
        )  # fmt: skip
    except OverflowError as error:
        raise ScheduleError(f"a number in a header is too large: {error}") from error
