"""weft bench, for real: a plan against the backend's own all-reduce, on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WEFT = ["-m", "weft", "bench"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
SMALL = ["--size", "40kB,20MB", "--repeat", "2", "--time", "1s"]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TORCHRUN, *WEFT, *arguments], capture_output=True, text=True, timeout=120, check=False)


def test_plans_are_tried_and_the_fastest_is_measured_against_the_backend() -> None:
    done = bench("--network", "full_mesh:workers=2,bandwidth=500Mbit", *SMALL, "--candidates", "3", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["workers"] == 2
    assert [result["bytes"] for result in document["results"]] == [40_000, 20_000_000]
    for result in document["results"]:
        assert len(result["weft_times"]) == len(result["backend_times"]) == 2
        assert min(result["weft_times"]) <= result["weft_seconds"] <= max(result["weft_times"])
        assert result["speedup"] == pytest.approx(result["backend_seconds"] / result["weft_seconds"])
        assert 0 < result["bound_seconds"] <= result["predicted_seconds"]
    # Small tensors have one plan that is far ahead; for large ones several are about equally fast.
    assert "Tried on this network" in document["results"][1]["why"]


def test_a_table_for_people_names_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    made = [sys.executable, "-m", "weft", "plan", "full_mesh:workers=2", "--size", "40kB", "-o", str(path)]
    subprocess.run(made, check=True, capture_output=True, timeout=120)
    done = bench("--plan", str(path), "--size", "40kB", "--repeat", "1")
    assert done.returncode == 0, done.stderr
    head, _, row, *_ = done.stdout.splitlines()
    assert head.split()[:3] == ["size", "weft", "backend"]
    assert row.startswith("40 kB")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--repeat", "0"], "--repeat and --candidates must be at least 1"),
        (["--candidates", "0"], "--repeat and --candidates must be at least 1"),
        (["--size", "12 parsecs"], "parsecs"),
        (["--plan", "p.json", "--network", "full_mesh"], "--plan brings its own network"),
    ],
)
def test_wrong_arguments_are_named_before_anybody_joins(arguments: list[str], says: str) -> None:
    done = subprocess.run([sys.executable, *WEFT, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
