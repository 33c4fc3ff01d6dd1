"""Faults in the middle of all-reduces on emulated networks: a few of those that ``python -m benchmarks.faults`` tries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from weft.emulation.capabilities import capabilities

ROOT = Path(__file__).parent.parent
CASES = ["ring:kill", "forest:cut", "backend:stop"]
VICTIM = "2"


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    """By case, what came of it. All in one run: how long workers take to start is known from the case before."""
    found = capabilities()
    if not found.can_emulate:
        missing = ", ".join(item.name for item in found.items if item.needed and not item.present)
        pytest.skip(f"this machine cannot emulate: it lacks {missing}")
    words = [sys.executable, "-m", "benchmarks.faults", *CASES, "--victim", VICTIM, "--no-file"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(CASES), done.stderr
    return {f"{line['collective']}:{line['fault']}": line for line in lines}


@pytest.mark.parametrize("case", CASES)
def test_every_survivor_names_the_worker_at_fault_within_the_deadline(
    rows: dict[str, dict[str, Any]], case: str
) -> None:
    row = rows[case]
    assert row["done"] > 0, "the fault came before the first all-reduce"
    assert row["in_time"], row
    assert row["named"], row
    # Who is only slow answers: then both ends of what does not get on may be named.
    assert row["alone"] or row["fault"] == "slow", row
    assert f"rank {VICTIM}" in row["said"]


@pytest.mark.parametrize("case", CASES)
def test_survivors_fail_and_nothing_is_left_behind(rows: dict[str, dict[str, Any]], case: str) -> None:
    row = rows[case]
    assert all(code not in (0, None) for rank, code in row["exit_codes"].items() if rank != VICTIM), row
    assert row["emulate_code"] != 0
    assert row["left_behind"] == []
