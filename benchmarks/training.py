"""Training steps of a CNN on an emulated network: Weft's DataParallel against PyTorch's DistributedDataParallel, in turn.

Run with ``make bench`` on an otherwise idle machine that can emulate networks, or ``python -m benchmarks.training B`` for some of
the scenarios. Both train the same model from the same state on the same batches, so their losses must stay the same; what
differs is how gradients travel. Weft plans from a probe alone, and from the network file, and tunes itself in steps before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import weft.torch as wt
from benchmarks.publishing import publish_rows
from benchmarks.scenarios import scenarios

STEPS, WARM_UP, BATCH, MOST_TUNING = 8, 3, 8, 150
CLOSE = 1e-4


class Trainers:
    """On every rank: models that take the same steps in turn."""

    def __init__(self, **models: nn.Module) -> None:
        self.models = models
        self.optimizers = {name: torch.optim.SGD(model.parameters(), 0.05, 0.9) for name, model in models.items()}
        self.times: dict[str, list[float]] = {name: [] for name in models}
        self.losses: dict[str, list[float]] = {name: [] for name in models}

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        for name, model in self.models.items():
            dist.barrier()
            begun = time.perf_counter()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizers[name].step()
            self.optimizers[name].zero_grad()
            self.times[name].append(time.perf_counter() - begun)
            self.losses[name].append(float(loss.detach()))

    def medians(self) -> list[float]:
        """Of the slowest rank, without the first steps."""
        table = torch.tensor(list(self.times.values()), dtype=torch.float64)
        dist.all_reduce(table, dist.ReduceOp.MAX)
        return [median(row[WARM_UP:]) for row in table.tolist()]


def cnn() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(128 * 7 * 7, 768), nn.ReLU(), nn.Linear(768, 10),
    )  # fmt: skip


def drawn_batch(draw: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(BATCH, 1, 28, 28, generator=draw), torch.randint(10, (BATCH,), generator=draw)


def tuned(ours: wt.DataParallel, draw: torch.Generator) -> int:
    """Take steps until buckets are settled; how many."""
    steps = 0
    while ours.settled_arrangement is None and steps < MOST_TUNING:
        images, labels = drawn_batch(draw)
        nn.functional.cross_entropy(ours(images), labels).backward()  # type: ignore[no-untyped-call]
        steps += 1
    ours.zero_grad()
    return steps


def measure(network: str | None) -> dict[str, Any]:
    """On every rank: steps of both in turn."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    draw = torch.Generator().manual_seed(1 + dist.get_rank())
    begun = time.perf_counter()
    ours = wt.DataParallel(cnn(), plan="auto", network=network)
    decided = time.perf_counter()
    tuning_steps = tuned(ours, draw)
    settled = time.perf_counter()
    trainers = Trainers(ddp=DistributedDataParallel(cnn()), weft=ours)
    ours.load_state_dict(trainers.models["ddp"].state_dict())
    for _ in range(WARM_UP + STEPS):
        trainers.step(*drawn_batch(draw))
    ddp, weft = trainers.medians()
    apart = max(abs(a - b) for a, b in zip(*trainers.losses.values(), strict=True))
    assert apart < CLOSE, f"losses differ by {apart}"
    report = ours.report()
    dist.barrier()
    dist.destroy_process_group()
    return {
        "parameters": sum(p.numel() for p in ours.parameters()),
        "ddp_seconds": round(ddp, 4),
        "weft_seconds": round(weft, 4),
        "faster": round(ddp / weft, 3),
        "deciding_seconds": round(decided - begun, 1),
        "tuning_steps": tuning_steps,
        "tuning_seconds": round(settled - decided, 1),
        "losses_differ_by": apart,
        "report": report.splitlines(),
    }


def emulated(network: Any, *, probed: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.yaml"
        network.save(path)
        worker = [sys.executable, "-m", "benchmarks.training", "--worker", *([] if probed else [str(path)])]
        command = [sys.executable, "-m", "weft", "emulate", str(path), "--", *worker]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=["A", "B"], metavar="LETTER")
    parser.add_argument("--worker", action="store_true", help="be one of the workers")
    args, rest = parser.parse_known_args()
    if args.worker:
        given = [name for name in [*args.scenarios, *rest] if name.endswith(".yaml")]
        found = measure(given[0] if given else None)
        if os.environ["RANK"] == "0":
            print(json.dumps(found))
        return
    known = {scenario.letter: scenario for scenario in scenarios()}
    rows = []
    for letter in args.scenarios:
        for probed in (False, True):
            row = {"scenario": letter, "about": known[letter].about, "planned_from": "probe" if probed else "file"}
            rows.append(row | emulated(known[letter].network, probed=probed))
            print(json.dumps(rows[-1]), flush=True)
    publish_rows("training", rows, ("scenario", "planned_from"))


if __name__ == "__main__":
    main()
