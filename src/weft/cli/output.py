"""What verbs print: JSON for programs, tables for people, progress on a terminal."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.files import without_nan


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on standard output; numbers that are not finite are null."""
    sys.stdout.write(json.dumps(without_nan(document), indent=2, allow_nan=False) + "\n")


def print_line(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def print_table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Rows in columns, the first row as the head; the columns in ``right`` are flush right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print_line("  ".join(cells).rstrip())
        if number == 0:
            print_line("  ".join("-" * width for width in widths))


Report = Callable[[int, int], None]


@contextmanager
def progress(what: str) -> Iterator[Report]:
    """A function that shows how much is done, on a terminal, once the work has taken a second."""
    begun = time.monotonic()
    shown = False

    def report(done: int, whole: int) -> None:
        nonlocal shown
        if sys.stderr.isatty() and (shown or time.monotonic() - begun > 1):
            shown = True
            filled = 30 * done // max(1, whole)
            sys.stderr.write(f"\r{what} [{'#' * filled}{'.' * (30 - filled)}] {100 * done // max(1, whole):3d}%")
            sys.stderr.flush()

    try:
        yield report
    finally:
        if shown:
            sys.stderr.write("\r" + " " * (len(what) + 40) + "\r")
            sys.stderr.flush()


def note_first_run() -> None:
    """Say on a terminal why the first run takes longer."""
    package = Path(__file__).parent.parent
    compiled_before = any(package.glob("simulation/__pycache__/*.nbi"))
    if sys.stderr.isatty() and not compiled_before and os.access(package / "simulation", os.W_OK):
        sys.stderr.write("compiling the simulator for this machine, once; about half a minute ...\n")
