"""Training steps of a model with many gradients on emulated racks: overlap="auto" against DistributedDataParallel's buckets.

Run with ``make bench`` on an otherwise idle machine that can emulate networks, or ``python -m benchmarks.overlap
resnet/400/48`` for one case: a model, a rate in Mbit/s and the model's width. A worker's batch is chosen so that communication
is about half of a step on this machine; ``resnet/400/48/8`` has a batch of 8. Weft first tunes itself in ordinary training
steps, once with an ordinary optimizer and once with a late one. Then both and DistributedDataParallel with buckets of several
sizes take turns of a few steps, on the same batches. Beside them runs the same model without any synchronization, which shows
what part of a step communication is. DistributedDataParallel with its default buckets also repeats Weft's first steps, and
once more with smaller ones: how far losses may differ by rounding alone.

A transformer's gradients come at an even pace. A residual network is as most that are made of convolutions: its last
stages, whose gradients come first, have most of the parameters, and its first ones as much of the computing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.publishing import publish_rows
from benchmarks.scenarios import MBIT
from weft.network import two_tier

if TYPE_CHECKING:
    import torch

CAPS = (1, 5, 25, 100)
OURS, DEFAULT, OTHER, LATE = "weft", "ddp 25 MiB", "ddp 5 MiB", "weft, late"
LEAST_STEPS, MOST_STEPS, SETTLED = 40, 600, 10
REPEATED = 80
"""steps at most whose losses are compared"""
TURNS, SKIPPED, IN_A_ROW = 17, 1, 6
"""turns, those that do not count, and the steps of each"""
CLOSE = 2e-3
CASES = ("transformer/400/160", "transformer/1000/160", "resnet/400/48", "resnet/1000/48")
COMPUTING = 1.0
"""of the time of averaging all gradients after it: then communication is about half of a step, because default buckets hide
little of it"""
TRIED, TIMED = (2, 16), 6
"""batches that are timed to choose one, and the steps of each"""
RANKS, SYMBOLS, LENGTH, CLASSES = 8, 64, 16, 10
IMAGE = (3, 16, 16)
RATES = {"transformer": 0.01, "resnet": 0.00003}
"""of learning: at 0.01 a residual network with few images a batch makes 1e-7 into 0.4 within sixty steps, even if only the
order changes in which one process adds gradients up"""


@dataclass(frozen=True, slots=True)
class Case:
    model: str
    rate: int
    width: int
    batch: int = 0
    """if none is given, one is chosen"""

    @staticmethod
    def of(text: str) -> Case:
        model, *numbers = text.split("/")
        return Case(model, *map(int, numbers))

    def __str__(self) -> str:
        return f"{self.model}/{self.rate}/{self.width}" + (f"/{self.batch}" if self.batch else "")


def measure(case: Case, overlap: str) -> dict[str, Any]:
    """On every rank."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import weft.torch as wt

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    steps = Steps(case if case.batch else replace(case, batch=fitting_batch(case)))
    begun = time.perf_counter()
    ours = wt.DataParallel(steps.model(), plan="auto", overlap=overlap, broadcast_buffers=False)
    planning = time.perf_counter() - begun
    steps.add(OURS, ours)
    steps.add("alone", steps.model())
    for cap in CAPS:
        size = None if cap == 25 else cap
        ddp = DistributedDataParallel(steps.model(), bucket_cap_mb=size, forward_sync_buffers=False)
        steps.add(f"ddp {cap} MiB", ddp)
    losses, tuning = tuned(steps, OURS, ours)
    late = wt.DataParallel(steps.model(), ours.choice, overlap=overlap, broadcast_buffers=False)
    steps.add(LATE, late)
    steps.optimizers[LATE] = wt.LateOptimizer(late, steps.optimizers[LATE])
    late_losses, late_tuning = tuned(steps, LATE, late)
    most = min(REPEATED, max(len(losses), len(late_losses)))
    expected, other = ([steps.step(name, number) for number in range(most)] for name in (DEFAULT, OTHER))
    apart = max(differing(losses, expected), differing(late_losses, expected)), differing(other, expected)
    found = report(steps.medians(), apart, ours, late)
    found |= {"batch": steps.case.batch, "planning_seconds": round(planning, 1)}
    found |= {"turns": TURNS - SKIPPED, "steps_a_turn": IN_A_ROW}
    found["tuning_seconds"] = [round(tuning, 1), round(late_tuning, 1)]
    found["tuning_steps"] = [len(losses), len(late_losses)]
    if rank_0() and (path := os.environ.get("TRACE")):
        trace = ours.step_trace()
        assert trace is not None
        trace.save(Path(path))
    dist.barrier()
    dist.destroy_process_group()
    return found


class Steps:
    """Models that are trained on the same batches, in turn."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.models: dict[str, torch.nn.Module] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    def model(self) -> torch.nn.Module:
        import torch

        from weft.training.models.residual import resnet20
        from weft.training.models.transformer import transformer
        from weft.training.options import Resnet20, Transformer

        torch.manual_seed(0)
        if self.case.model == "resnet":
            return resnet20(IMAGE, CLASSES, Resnet20(self.case.width, blocks=6))
        return transformer((LENGTH,), SYMBOLS, Transformer(width=self.case.width, heads=4, layers=10))

    def batch(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs, and what shall become of them."""
        import torch

        draw = torch.Generator().manual_seed(RANKS * number + int(os.environ["RANK"]))
        if self.case.model == "resnet":
            images = torch.randn(self.case.batch, *IMAGE, generator=draw)
            return images, torch.randint(CLASSES, (self.case.batch,), generator=draw)
        text = torch.randint(SYMBOLS, (self.case.batch, LENGTH + 1), generator=draw)
        return text[:, :-1], text[:, 1:].flatten()

    def add(self, name: str, model: torch.nn.Module) -> None:
        import torch

        self.models[name] = model
        self.optimizers[name] = torch.optim.SGD(model.parameters(), RATES[self.case.model], 0.9)

    def step(self, name: str, number: int) -> float:
        """Its loss."""
        import torch

        inputs, targets = self.batch(number)
        made = self.models[name](inputs)
        loss = torch.nn.functional.cross_entropy(made.flatten(0, -2), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizers[name].step()
        self.optimizers[name].zero_grad()
        return float(loss.detach())

    def medians(self) -> dict[str, float]:
        """Seconds a step on the slowest rank."""
        import torch
        import torch.distributed as dist

        times: dict[str, list[float]] = {name: [] for name in self.models}
        names = list(self.models)
        for turn in range(TURNS):
            for name in random.Random(turn).sample(names, len(names)):  # nobody is always behind the same
                dist.barrier()
                begun = time.perf_counter()
                for step in range(IN_A_ROW):
                    self.step(name, MOST_STEPS + IN_A_ROW * turn + step)
                if name == LATE:
                    self.models[name].settle()  # type: ignore[operator]
                times[name].append((time.perf_counter() - begun) / IN_A_ROW)
        table = torch.tensor([times[name] for name in self.models], dtype=torch.float64)
        dist.all_reduce(table, dist.ReduceOp.MAX)
        return {name: median(row[SKIPPED:]) for name, row in zip(self.models, table.tolist(), strict=True)}


def fitting_batch(case: Case) -> int:
    """With which computing takes its part of what averaging does, by a line through two batches."""
    import torch
    import torch.distributed as dist

    def computing(batch: int) -> float:
        steps = Steps(replace(case, batch=batch))
        steps.add("alone", steps.model())
        return slowest(partial(steps.step, "alone"))

    small, large = map(computing, TRIED)
    gradients = torch.zeros(sum(parameter.numel() for parameter in Steps(case).model().parameters()))
    averaging = slowest(lambda _: dist.all_reduce(gradients))
    each = (large - small) / (TRIED[1] - TRIED[0])
    return max(1, round(TRIED[0] + (COMPUTING * averaging - small) / each))


def slowest(work: Callable[[int], object]) -> float:
    """What it takes on the slowest rank, in the median, the first time not counted."""
    import torch
    import torch.distributed as dist

    times = []
    for number in range(TIMED + 1):
        dist.barrier()
        begun = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - begun)
    found = torch.tensor(median(times[1:]), dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return float(found)


def tuned(steps: Steps, name: str, model: Any) -> tuple[list[float], float]:
    """Train until buckets are settled: the losses, and the seconds that it took."""
    losses: list[float] = []
    begun, settled = time.perf_counter(), 0
    while (settled < SETTLED and len(losses) < MOST_STEPS) or len(losses) < LEAST_STEPS:
        losses.append(steps.step(name, len(losses)))
        settled += model.overlap is not None
    return losses, time.perf_counter() - begun


def differing(losses: list[float], expected: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(losses, expected, strict=False))


def report(medians: dict[str, float], apart: tuple[float, float], ours: Any, late: Any) -> dict[str, Any]:
    assert apart[0] < max(CLOSE, 3 * apart[1]), f"losses differ by {apart}"
    weft = medians[OURS]
    ddp = {name: seconds for name, seconds in medians.items() if name.startswith("ddp")}
    found: dict[str, Any] = {
        "tensors": sum(1 for _ in ours.parameters()),
        "bytes": sum(ours.buckets),
        "seconds": {name: round(seconds, 4) for name, seconds in medians.items()},
        "communication_share_of_ddp": round(1 - medians["alone"] / ddp[DEFAULT], 3),
        "faster_than_ddp": round(ddp[DEFAULT] / weft, 3),
        "faster_than_best_ddp": round(min(ddp.values()) / weft, 3),
        "late_faster_than_ddp": round(ddp[DEFAULT] / medians[LATE], 3),
        "late_faster_than_best_ddp": round(min(ddp.values()) / medians[LATE], 3),
        "losses_differ_by": apart[0],
        "ddp_losses_differ_by": apart[1],
        "report": ours.report().splitlines(),
        "late_report": late.report().splitlines(),
    }
    if ours.overlap is not None:
        predicted = ours.overlap.proposal.seconds
        found |= {"predicted_seconds": round(predicted, 4), "measured_over_predicted": round(weft / predicted, 3)}
    return found


def rank_0() -> bool:
    return os.environ["RANK"] == "0"


def emulated(case: Case, overlap: str, trace: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.yaml"
        two_tier(2, 4, case.rate * MBIT, uplink=case.rate * MBIT).save(path)
        worker = [sys.executable, "-m", "benchmarks.overlap", str(case), "--overlap", overlap, "--worker"]
        command = [sys.executable, "-m", "weft", "emulate", str(path), "--", *worker]
        environment = os.environ | ({"TRACE": str(trace.absolute())} if trace is not None else {})
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "cases", nargs="*", default=CASES, metavar="MODEL/MBIT/WIDTH[/BATCH]", help=f"such as {', '.join(CASES)}"
    )
    parser.add_argument("--overlap", default="auto")
    parser.add_argument("--trace", type=Path, help="for the last step, of the last case")
    parser.add_argument("--worker", action="store_true", help="be one of the workers")
    args = parser.parse_args()
    if args.worker:
        found = measure(Case.of(args.cases[0]), args.overlap)
        if rank_0():
            print(json.dumps(found))
        return
    rows = []
    for case in map(Case.of, args.cases):
        row = {"model": case.model, "rate": f"{case.rate} Mbit/s", "width": case.width}
        rows.append(row | emulated(case, args.overlap, args.trace))
        print(json.dumps(rows[-1]), flush=True)
    keys = ("model", "rate", "width", "batch")
    publish_rows("overlap", rows, keys)


if __name__ == "__main__":
    main()
