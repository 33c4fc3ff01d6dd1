"""Where results go: one dated file a benchmark."""

from __future__ import annotations

import json
import platform
from datetime import date
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def publish(name: str, on: str = "", **facts: object) -> None:
    """Write what was measured, with the date and the machine; ``on`` says more of the machine."""
    today = date.today().isoformat()
    machine = f"{platform.machine()}, Python {platform.python_version()}" + (f", {on}" if on else "")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{today}-{name}.json"
    path.write_text(json.dumps({"date": today, "machine": machine, **facts}, indent=2) + "\n")
    print(f"written to {path.name}")
