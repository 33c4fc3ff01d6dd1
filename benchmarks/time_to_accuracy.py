"""Time to accuracy, trained in memory: BSP on gloo's ring against DS-Sync, on each scenario's network, five seeds;
and how accurate ASP becomes in as many steps.

    python -m benchmarks.time_to_accuracy run bsp 0             one training, about two minutes; its curve is kept
    python -m benchmarks.time_to_accuracy run "ds-sync 5+3" 0
    python -m benchmarks.time_to_accuracy sum                   what all curves so far say, published

A CNN on Fashion-MNIST, eight workers. What is trained does not depend on time, except that DS-Sync divides otherwise among 5 + 3
workers with a slow one; so a training is a curve of accuracies over steps, and how long steps take is simulated for each
scenario: 0.1 s of computing, and 25 MB on links of 400 Mbit/s. The target is the lowest of BSP's best accuracies over all seeds.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.group_scenarios import GroupScenario, group_scenarios
from benchmarks.publishing import RESULTS, publish
from weft.collectives import COLLECTIVES
from weft.files import write_atomically
from weft.groups import GroupTimes, divide_and_shuffle, racks_of
from weft.reproductions.ds_sync import SCENARIOS
from weft.reproductions.ds_sync_training import curve, folder_of_data
from weft.simulation import Background, Conditions, simulate

METHODS = {
    "bsp": ("bsp", "static"),
    "ds-sync 4+4": ("ds-sync", "static"),
    "ds-sync 5+3": ("ds-sync", "inter-rack and end-host"),
    "asp": ("asp", "static"),
}
"""What is trained: the strategy, and in which scenario."""
SEEDS = range(5)
EPOCHS = 4
COMPUTE, NBYTES = 0.1, 25e6
RUNS = RESULTS / "time-to-accuracy"


def run(method: str, seed: int, epochs: int, data: Path | None) -> None:
    """Train once, unless that is done."""
    path = RUNS / f"{method.replace(' ', '-')}-{seed}.json"
    if path.exists():
        print(f"{path.name} is there already")
        return
    folder = data or folder_of_data()
    if folder is None:
        raise SystemExit("Fashion-MNIST is not on this machine: give its folder with --data")
    strategy, scenario = METHODS[method]
    found = curve(folder, strategy, scenario, seed, epochs)
    RUNS.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({"method": method, "epochs": epochs, **asdict(found)}) + "\n")
    print(f"{path.name}: best {max(found.plain):.4f}, of the ensemble {max(found.ensemble):.4f}")


def step_seconds(scenario: GroupScenario, method: str) -> float:
    """Computing, then communication, as the scenario's network is."""
    network, slow = scenario.workers, SCENARIOS[scenario.name]
    whole = scenario.whole
    conditions = None
    if scenario.flow is not None:
        one, two = scenario.flow
        conditions = Conditions([Background(one, two), Background(two, one)])
    if method == "bsp":
        return COMPUTE + simulate(COLLECTIVES["ring"](whole), whole, NBYTES, conditions).seconds
    workers = [whole.workers.index(name) for name in network.workers]
    pattern = divide_and_shuffle(racks_of(whole), [workers[rank] for rank in slow.slow_workers], slow.slow_uplinks)
    return COMPUTE + GroupTimes(whole, NBYTES, conditions).pattern(pattern).seconds


def summed() -> dict[str, Any]:
    """For every scenario and seed: steps and time to the target, and the best accuracies."""
    curves = [json.loads(path.read_text()) for path in sorted(RUNS.glob("*.json"))]
    by = {(one["method"], one["seed"]): one for one in curves}
    seeds = sorted({seed for method, seed in by if all((name, seed) in by for name in METHODS)})
    if not seeds:
        raise SystemExit("no seed has been trained with every method yet")
    target = min(max(by["bsp", seed]["plain"]) for seed in seeds)
    best = {
        name: {kind: round(mean(max(by[name, seed][kind]) for seed in seeds), 5) for kind in ("plain", "ensemble")}
        for name in METHODS
    }
    rows = []
    for name, scenario in group_scenarios().items():
        ours = "ds-sync 5+3" if name == "inter-rack and end-host" else "ds-sync 4+4"
        row: dict[str, Any] = {"scenario": name}
        for label, method in (("bsp", "bsp"), ("ds_sync", ours)):
            each = step_seconds(scenario, method)
            steps = [_steps_to(by[method, seed], target) for seed in seeds]
            row[label] = {"step_seconds": round(each, 4), "steps": steps}
            row[label]["seconds"] = None if None in steps else round(mean(s * each for s in steps if s is not None), 1)
        if row["bsp"]["seconds"] and row["ds_sync"]["seconds"]:
            row["faster"] = round(row["bsp"]["seconds"] / row["ds_sync"]["seconds"], 3)
        rows.append(row)
    return {"seeds": seeds, "target": target, "best": best, "compute_seconds": COMPUTE, "bytes": NBYTES, "rows": rows}


def _steps_to(one: dict[str, Any], target: float) -> int | None:
    pairs = zip(one["steps"], one["plain"], strict=True)
    return next((step for step, accuracy in pairs if accuracy >= target), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("run")
    one.add_argument("method", choices=list(METHODS))
    one.add_argument("seed", type=int)
    one.add_argument("--epochs", type=int, default=EPOCHS)
    one.add_argument("--data", type=Path, help="the folder of Fashion-MNIST's files")
    verbs.add_parser("sum")
    args = parser.parse_args()
    if args.verb == "run":
        run(args.method, args.seed, args.epochs, args.data)
    else:
        found = summed()
        print(json.dumps(found))
        publish("time-to-accuracy", **found)


if __name__ == "__main__":
    main()
