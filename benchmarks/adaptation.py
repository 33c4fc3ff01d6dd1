"""DS-Sync follows what is slow, for real: a background flow starts in the middle of a training and ends later.

Run ``python -m benchmarks.adaptation`` on an otherwise idle machine that can emulate networks: eight workers in racks of five and
three, a small model, and a TCP flow each way through worker 4's NIC and the uplink. What is recorded are all steps' times, when
the pattern was divided and when it returned; the picture shows the three phases.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

from benchmarks.group_scenarios import group_scenarios
from benchmarks.publishing import RESULTS, publish

BEGUN = time.time()
WIDTH, BATCH = 700, 8
"""half a million parameters: 2 MB"""
BEFORE, DURING, AFTER = 80.0, 100.0, 120.0
"""seconds"""


def train(network: str, seconds: float) -> dict[str, Any]:
    """On every rank: train for so many seconds."""
    import torch
    import torch.distributed as dist

    import weft.torch as wt
    from weft.groups import EVERY
    from weft.strategies import Averaging

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    module = torch.nn.Sequential(torch.nn.Linear(64, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(),
                                 torch.nn.Linear(WIDTH, 10))  # fmt: skip
    optimizer = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9)
    model = wt.Synchronized(module, optimizer, "ds-sync", network=network, bucket_bytes=1_000_000)
    draw = torch.Generator().manual_seed(dist.get_rank())
    ends: list[float] = [time.time()]
    communication: list[float] = []
    going = True
    while going:
        for _ in range(EVERY):
            inputs, targets = torch.randn(BATCH, 64, generator=draw), torch.randint(10, (BATCH,), generator=draw)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
            model.step()
            ends.append(time.time())
            communication.append(model.take_statistics().communication_seconds)
        if dist.get_rank() == 0:
            last = (ends[-1] - ends[-1 - EVERY]) / EVERY
            slow = model.strategy.contention if isinstance(model.strategy, Averaging) else ""
            sys.stderr.write(f"{ends[-1] - BEGUN:.0f} s, {len(communication)} steps, {last:.4f} s each: {slow}\n")
        going = bool(_largest(time.time() - BEGUN) < seconds)
    table = torch.tensor([end - start for start, end in pairwise(ends)], dtype=torch.float64)
    dist.all_reduce(table)
    found = {
        "ends": [round(end - BEGUN, 3) for end in ends[1:]],
        "step_seconds": [round(x / dist.get_world_size(), 5) for x in table.tolist()],
        "communication_seconds": [round(x, 5) for x in communication],
        "adjustments": model.adjustments,
        "parameters": sum(p.numel() for p in module.parameters()),
    }
    dist.barrier()
    dist.destroy_process_group()
    return found


def _largest(value: float) -> float:
    import torch
    import torch.distributed as dist

    found = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


def emulated(before: float, during: float, after: float) -> dict[str, Any]:
    """The training under emulation, and its phases."""
    scenario = group_scenarios()["inter-rack and end-host"]
    one, two = scenario.flow or ("", "")
    until = f"@{before:g}s..{before + during:g}s"
    flows = ["--background", f"{one}>{two}{until}", "--background", f"{two}>{one}{until}"]
    with tempfile.TemporaryDirectory() as folder:
        whole, workers = Path(folder) / "whole.yaml", Path(folder) / "workers.yaml"
        scenario.whole.save(whole)
        scenario.workers.save(workers)
        worker = [sys.executable, "-m", "benchmarks.adaptation", "--worker", str(workers), str(before + during + after)]
        command = [sys.executable, "-m", "weft", "emulate", str(whole), *flows, "--", *worker]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return {
        "about": scenario.about,
        "flow": [before, before + during],
        **found,
        **phases(found, before, before + during),
    }


def phases(found: dict[str, Any], start: float, stop: float) -> dict[str, Any]:
    """Medians of steps before, during (not divided yet, and divided) and after; how many steps noticing took."""
    ends, steps = found["ends"], found["step_seconds"]
    first = next((i for i, end in enumerate(ends) if end > start), len(ends))
    last = next((i for i, end in enumerate(ends) if end > stop), len(ends))
    divided = next((step for step, slow in found["adjustments"] if slow != "nobody is slow" and step > first), None)
    returned = next((step for step, slow in found["adjustments"] if slow == "nobody is slow" and step > last), None)

    def middle(begin: int, end: int | None) -> float | None:
        part = steps[begin:end]
        return round(median(part), 5) if part else None

    return {
        "steps": len(steps), "flow_began_in_step": first, "flow_ended_in_step": last,
        "divided_after_step": divided, "returned_after_step": returned,
        "noticed_within": None if divided is None else divided - first,
        "returned_within": None if returned is None else returned - last,
        "median_before": middle(0, first),
        "median_during_not_divided": middle(first, min(divided or last, last)),
        "median_during_divided": None if divided is None else middle(divided, last),
        "median_after_still_divided": middle(last, returned),
        "median_after": None if returned is None else middle(returned, None),
    }  # fmt: skip


def draw(found: dict[str, Any], path: Path) -> None:
    """Steps' times over the time of the training."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 4), layout="constrained")
    steps = [1000 * x for x in found["step_seconds"]]
    axes.plot(found["ends"], steps, ".", markersize=2, color="0.6", label="a step")
    window = 25
    smooth = [median(steps[max(0, i - window) : i + window]) for i in range(len(steps))]
    axes.plot(found["ends"], smooth, color="tab:blue", label=f"median of {2 * window}")
    axes.axvspan(*found["flow"], color="tab:red", alpha=0.12, label="background flow")
    for step, slow in found["adjustments"]:
        at = found["ends"][min(step, len(steps)) - 1]
        axes.axvline(at, color="black", linestyle="--", linewidth=1)
        text = fill(f"after step {step}: {slow}", 19)
        axes.annotate(text, (at, 0.97), (4, 0), ("data", "axes fraction"), "offset points", va="top", fontsize=8)
    axes.set_ylim(0, 1.6 * max(smooth))
    axes.set_xlabel("seconds")
    axes.set_ylabel("step, milliseconds")
    axes.set_title(f"DS-Sync, {found['about']}")
    axes.legend(loc="upper right", fontsize=8)
    figure.savefig(path)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", nargs=2, metavar=("NETWORK", "SECONDS"), help="be one of the workers")
    parser.add_argument("--phases", nargs=3, type=float, default=[BEFORE, DURING, AFTER], metavar="SECONDS")
    parser.add_argument("--no-publish", action="store_true", help="print alone")
    args = parser.parse_args()
    if args.worker:
        found = train(args.worker[0], float(args.worker[1]))
        if os.environ["RANK"] == "0":
            print(json.dumps(found))
        return
    found = emulated(*args.phases)
    many = ("ends", "step_seconds", "communication_seconds")
    print(json.dumps({key: value for key, value in found.items() if key not in many}))
    if args.no_publish:
        draw(found, Path(tempfile.gettempdir()) / "adaptation.png")
        return
    publish("adaptation", **found)
    draw(found, max(RESULTS.glob("*-adaptation.json")).with_suffix(".png"))


if __name__ == "__main__":
    main()
