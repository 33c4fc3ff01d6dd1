"""Where results go: one dated file a benchmark."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def publish_rows(name: str, rows: Sequence[dict[str, Any]], keys: Sequence[str], **facts: object) -> None:
    """The same for rows that are measured one by one: those of today's file stay whose ``keys`` are others."""
    path = RESULTS / f"{date.today().isoformat()}-{name}.json"
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {tuple(row[key] for key in keys) for row in rows}
    kept = [row for row in before if tuple(row[key] for key in keys) not in done]
    publish(name, "", **facts, rows=[*kept, *rows])


def publish(name: str, on: str = "", **facts: object) -> None:
    """Write what was measured, with the date and the machine; ``on`` says more of the machine."""
    today = date.today().isoformat()
    machine = f"{platform.machine()}, Python {platform.python_version()}" + (f", {on}" if on else "")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{today}-{name}.json"
    path.write_text(json.dumps({"date": today, "machine": machine, **facts}, indent=2) + "\n")
    print(f"written to {path.name}")
