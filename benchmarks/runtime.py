"""Plans executed for real on emulated networks, against the backend's own all-reduce in the same run.

Run with ``make bench`` on an otherwise idle machine that can emulate networks, or ``python -m benchmarks.runtime A B`` for
some of the scenarios. Every scenario is measured twice: planned from its network file, and planned from a probe alone. In E
a TCP flow of somebody else is on an uplink all the time; its file does not know of it, the probe does. G is this machine's
loopback without any shaping, and shows what executing costs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.publishing import publish_rows
from benchmarks.scenarios import Scenario, scenarios

WEFT = [sys.executable, "-m", "weft"]
BACKGROUND = "a0>b0"


def every_scenario() -> dict[str, Scenario]:
    found = {scenario.letter: scenario for scenario in scenarios()}
    found["E"] = Scenario("E", "as A, with a TCP flow of somebody else on an uplink", found["A"].network)
    return found


def emulated(scenario: Scenario, sizes: str, repeat: int, *, probed: bool) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.yaml"
        scenario.network.save(path)
        conditions = ["--background", BACKGROUND] if scenario.letter == "E" else []
        known = [] if probed else ["--network", str(path)]
        bench = [*WEFT, "bench", "--size", sizes, "--repeat", str(repeat), "--json", *known]
        command = [*WEFT, "emulate", str(path), *conditions, "--", *bench]
        return results_of(command)


def on_loopback(sizes: str, repeat: int) -> list[dict[str, Any]]:
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", "--no-python"]
    mesh = "full_mesh:workers=4,bandwidth=20Gbit"
    return results_of([*run, *WEFT, "bench", "--network", mesh, "--size", sizes, "--repeat", str(repeat), "--json"])


def results_of(command: list[str]) -> list[dict[str, Any]]:
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        print(f"failed with {done.returncode}: {' '.join(command)}")
        return []
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return results


def row_of(scenario: str, about: str, planned_from: str, turns: int, result: dict[str, Any]) -> dict[str, Any]:
    row = {"scenario": scenario, "about": about, "planned_from": planned_from, "turns": turns} | {
        key: result[key] for key in ("bytes", "collective", "segments", "paced")
    }
    for key in ("weft_seconds", "backend_seconds", "predicted_seconds", "bound_seconds"):
        row[key] = round(result[key], 4)
    row["faster_than_backend"] = round(result["backend_seconds"] / result["weft_seconds"], 3)
    row["of_the_bound"] = round(result["bound_seconds"] / result["weft_seconds"], 3)
    row["measured_over_predicted"] = round(result["weft_seconds"] / result["predicted_seconds"], 3)
    return row


def main() -> None:
    known = every_scenario()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=[*known, "G"], metavar="LETTER")
    parser.add_argument("--size", default="25MB")
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--source", choices=("file", "probe", "both"), default="both", help="what plans are made from")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for letter in args.scenarios:
        if letter == "G":
            sources = {"file": ("plain loopback, 4 workers", on_loopback(args.size, args.repeat))}
        else:
            sources = {
                source: (
                    known[letter].about,
                    emulated(known[letter], args.size, args.repeat, probed=source == "probe"),
                )
                for source in ("file", "probe")
                if args.source in (source, "both")
            }
        for planned_from, (about, results) in sources.items():
            for result in results:
                rows.append(row_of(letter, about, planned_from, args.repeat, result))
                print(json.dumps(rows[-1]), flush=True)
    publish_rows("runtime", rows, ("scenario", "planned_from", "bytes"))


if __name__ == "__main__":
    main()
