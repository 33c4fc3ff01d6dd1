"""Training steps of a model with many gradients on emulated racks: overlap="auto" against DistributedDataParallel's buckets.

Run with ``make bench`` on an otherwise idle machine that can emulate networks, or ``python -m benchmarks.overlap 400x64`` for
one case: a rate in Mbit/s and the width of the model, and the sequences of a batch if they shall be others. Weft first tunes
itself in ordinary training steps, once with an ordinary optimizer and once with a late one. Then both and
DistributedDataParallel with buckets of several sizes take turns of a few steps, on the same batches. Beside them runs the same
model without any synchronization, which shows what part of a step communication is. DistributedDataParallel with its default
buckets also repeats all of Weft's first steps: the losses must be the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.publishing import publish_rows
from benchmarks.scenarios import MBIT
from weft.network import two_tier

if TYPE_CHECKING:
    import torch

CAPS = (1, 5, 25, 100)
OURS, DEFAULT, LATE = "weft", "ddp 25 MiB", "weft, late"
LEAST_STEPS, MOST_STEPS, SETTLED = 40, 150, 10
TURNS, SKIPPED, IN_A_ROW = 5, 1, 8
"""turns, those that do not count, and the steps of each"""
CLOSE = 2e-3
SEQUENCES = {(400, 64): 16, (400, 160): 16, (1000, 64): 8, (1000, 160): 7}
"""of a worker's batch, at so many Mbit/s and for a model so wide: so that communication is about half of the step"""
RANKS, SYMBOLS, LENGTH = 8, 64, 16


@dataclass(frozen=True, slots=True)
class Case:
    rate: int
    width: int
    sequences: int

    @staticmethod
    def of(text: str) -> Case:
        rate, width, *sequences = map(int, text.split("x"))
        return Case(rate, width, *(sequences or [SEQUENCES[rate, width]]))

    def __str__(self) -> str:
        return f"{self.rate}x{self.width}x{self.sequences}"


def measure(case: Case, overlap: str) -> dict[str, Any]:
    """On every rank."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import weft.torch as wt

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    steps = Steps(case)
    begun = time.perf_counter()
    ours = wt.DataParallel(steps.model(), plan="auto", overlap=overlap)
    planning = time.perf_counter() - begun
    steps.add(OURS, ours)
    steps.add("alone", steps.model())
    for cap in CAPS:
        steps.add(f"ddp {cap} MiB", DistributedDataParallel(steps.model(), bucket_cap_mb=None if cap == 25 else cap))
    losses, tuning = tuned(steps, OURS, ours)
    late = wt.DataParallel(steps.model(), ours.choice, overlap=overlap)
    steps.add(LATE, late)
    steps.optimizers[LATE] = wt.LateOptimizer(late, steps.optimizers[LATE])
    late_losses, late_tuning = tuned(steps, LATE, late)
    expected = [steps.step(DEFAULT, number) for number in range(max(len(losses), len(late_losses)))]
    found = report(steps.medians(), (losses, late_losses, expected), ours, late)
    found |= {"planning_seconds": round(planning, 1), "tuning_seconds": [round(tuning, 1), round(late_tuning, 1)]}
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
        self.sequences, self.width = case.sequences, case.width
        self.models: dict[str, torch.nn.Module] = {}
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    def model(self) -> torch.nn.Module:
        import torch

        from weft.training.models.transformer import transformer
        from weft.training.options import Transformer

        torch.manual_seed(0)
        return transformer((LENGTH,), SYMBOLS, Transformer(width=self.width, heads=4, layers=10))

    def add(self, name: str, model: torch.nn.Module) -> None:
        import torch

        self.models[name], self.optimizers[name] = model, torch.optim.SGD(model.parameters(), 0.01, 0.9)

    def step(self, name: str, number: int) -> float:
        """Its loss."""
        import torch

        draw = torch.Generator().manual_seed(RANKS * number + int(os.environ["RANK"]))
        text = torch.randint(SYMBOLS, (self.sequences, LENGTH + 1), generator=draw)
        made = self.models[name](text[:, :-1])
        loss = torch.nn.functional.cross_entropy(made.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizers[name].step()
        self.optimizers[name].zero_grad()
        return float(loss.detach())

    def medians(self) -> dict[str, float]:
        """Seconds a step on the slowest rank."""
        import torch
        import torch.distributed as dist

        times: dict[str, list[float]] = {name: [] for name in self.models}
        for turn in range(TURNS):
            for name in self.models:
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


def tuned(steps: Steps, name: str, model: Any) -> tuple[list[float], float]:
    """Train until buckets are settled: the losses, and the seconds that it took."""
    losses: list[float] = []
    begun, settled = time.perf_counter(), 0
    while (settled < SETTLED and len(losses) < MOST_STEPS) or len(losses) < LEAST_STEPS:
        losses.append(steps.step(name, len(losses)))
        settled += model.overlap is not None
    return losses, time.perf_counter() - begun


def report(medians: dict[str, float], losses: tuple[list[float], ...], ours: Any, late: Any) -> dict[str, Any]:
    *both, expected = losses
    apart = max(abs(a - b) for own in both for a, b in zip(own, expected, strict=False))
    assert apart < CLOSE, f"losses differ by {apart}"
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
        "losses_differ_by": apart,
        "tuning_steps": [len(own) for own in both],
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
    every = [f"{rate}x{width}" for rate, width in SEQUENCES]
    parser.add_argument(
        "cases", nargs="*", default=every, metavar="MBITxWIDTH[xSEQUENCES]", help=f"of {', '.join(every)}"
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
        row = {"rate": f"{case.rate} Mbit/s", "width": case.width, "sequences": case.sequences}
        rows.append(row | emulated(case, args.overlap, args.trace))
        print(json.dumps(rows[-1]), flush=True)
    keys = ("rate", "width", "sequences")
    publish_rows("overlap", rows, keys, turns=TURNS - SKIPPED, steps_a_turn=IN_A_ROW)


if __name__ == "__main__":
    main()
