"""Time to accuracy, trained in memory: BSP on gloo's ring against DS-Sync, on each scenario's network, five seeds;
and how accurate ASP, and DS-Sync that averages a quarter of the parameters in a step, become in as many steps.

    python -m benchmarks.time_to_accuracy run bsp 0             one training, about two minutes; its curve is kept
    python -m benchmarks.time_to_accuracy run "ds-sync 5+3" 0
    python -m benchmarks.time_to_accuracy sum                   what all curves so far say, published

A CNN on Fashion-MNIST, eight workers. What is trained does not depend on time, except that DS-Sync divides otherwise among 5 + 3
workers with a slow one, and crosses a slow uplink between 4 + 4 by halves; so a training is a curve of accuracies
over steps, and how long steps take is simulated for each scenario: 0.1 s of computing, 25 MB on links of 400 Mbit/s. There are
two targets: the lowest of BSP's best accuracies over all seeds, as in the paper, and 0.2 points less than their median, which one
bad seed of BSP does not make easy.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.group_scenarios import GroupScenario, group_scenarios
from benchmarks.publishing import RESULTS, publish
from weft.collectives import COLLECTIVES
from weft.files import write_atomically
from weft.groups import GroupTimes, divide_and_shuffle, racks_of
from weft.reproductions.ds_sync import SCENARIOS
from weft.reproductions.ds_sync_training import curve
from weft.reproductions.fashion import folder_of_data
from weft.simulation import Background, Conditions, simulate

METHODS = {
    "bsp": ("bsp", "static", 1),
    "ds-sync 4+4": ("ds-sync", "static", 1),
    "ds-sync 5+3": ("ds-sync", "inter-rack and end-host", 1),
    "ds-sync 4+4, uplink": ("ds-sync", "inter-rack", 1),
    "asp": ("asp", "static", 1),
    "ds-sync in 4 parts": ("ds-sync", "static", 4),
}
"""What is trained: the strategy, in which scenario, and in how many parts parameters are averaged."""
EPOCHS = 4
COMPUTE, NBYTES = 0.1, 25e6
RUNS = RESULTS / "time-to-accuracy"


def run(method: str, seed: int, epochs: int, data: Path | None) -> None:
    """Train once, unless that is done."""
    path = RUNS / f"{method.replace(',', '').replace(' ', '-')}-{seed}.json"
    if path.exists():
        print(f"{path.name} is there already")
        return
    folder = data or folder_of_data()
    if folder is None:
        raise SystemExit("Fashion-MNIST is not on this machine: give its folder with --data")
    strategy, scenario, parts = METHODS[method]
    found = curve(folder, strategy, scenario, seed, epochs, parts)
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
    halved = slow.slow_uplinks if method.endswith("uplink") else ()
    slow_workers = [workers[rank] for rank in slow.slow_workers]
    pattern = divide_and_shuffle(racks_of(whole), slow_workers, slow.slow_uplinks, halved)
    return COMPUTE + GroupTimes(whole, NBYTES, conditions).pattern(pattern).seconds


def summed() -> dict[str, Any]:
    """The best accuracies, and for every scenario and target how long BSP and DS-Sync take to it."""
    curves = [json.loads(path.read_text()) for path in sorted(RUNS.glob("*.json"))]
    by = {(one["method"], one["seed"]): one for one in curves}
    seeds = sorted({seed for method, seed in by if all((name, seed) in by for name in METHODS)})
    if not seeds:
        raise SystemExit("no seed has been trained with every method yet")
    best = {
        name: {kind: [max(by[name, seed][kind]) for seed in seeds] for kind in ("plain", "ensemble")}
        for name in METHODS
    }
    means = {name: {kind: round(mean(found), 5) for kind, found in kinds.items()} for name, kinds in best.items()}
    bsp = best["bsp"]["plain"]
    targets = {"lowest of BSP's best": min(bsp), "BSP's median best less 0.2 points": round(median(bsp) - 0.002, 5)}
    rows = []
    for name, scenario in group_scenarios().items():
        ours = {"inter-rack and end-host": "ds-sync 5+3", "inter-rack": "ds-sync 4+4, uplink"}.get(name, "ds-sync 4+4")
        each = {"bsp": step_seconds(scenario, "bsp"), "ds_sync": step_seconds(scenario, ours)}
        for label, target in targets.items():
            steps = {
                "bsp": [_steps_to(by["bsp", seed], target) for seed in seeds],
                "ds_sync": [_steps_to(by[ours, seed], target) for seed in seeds],
            }
            rows.append({"scenario": name, "target": label, **_times(each, steps)})
    return {
        "seeds": seeds, "targets": targets, "best_mean": means, "best": best, "compute_seconds": COMPUTE, "bytes": NBYTES,
        "rows": rows,
    }  # fmt: skip


def _times(each: dict[str, float], steps: dict[str, list[int | None]]) -> dict[str, Any]:
    """Of the seeds with which both get there."""
    pairs = list(zip(steps["bsp"], steps["ds_sync"], strict=True))
    both = [(b, d) for b, d in pairs if b is not None and d is not None]
    found: dict[str, Any] = {"step_seconds": {name: round(one, 4) for name, one in each.items()}, "steps": steps}
    if both:
        bsp, ours = mean(b for b, _ in both), mean(d for _, d in both)
        found |= {
            "more_steps": round(ours / bsp, 3),
            "seconds": {"bsp": round(bsp * each["bsp"], 1), "ds_sync": round(ours * each["ds_sync"], 1)},
            "faster": round(bsp * each["bsp"] / (ours * each["ds_sync"]), 3),
        }
    return found


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
