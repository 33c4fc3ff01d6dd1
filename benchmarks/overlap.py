"""Training steps of a model with many gradients on emulated racks: overlap="auto" against DistributedDataParallel's buckets.

Run with ``make bench`` on an otherwise idle machine that can emulate networks, or ``python -m benchmarks.overlap 400x64`` for
one case: a rate in Mbit/s and the width of the model. Weft first tunes itself in ordinary training steps. Then it and
DistributedDataParallel with buckets of several sizes take turns of a few steps, on the same batches. Beside them run Weft with
the same buckets and a late optimizer, and the same model without any synchronization, which shows what part of a step
communication is. DistributedDataParallel with its default buckets also repeats all of Weft's first steps: the losses must be
the same.
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

from benchmarks.publishing import publish
from benchmarks.scenarios import MBIT
from weft.network import two_tier

CAPS = (1, 5, 25, 100)
DEFAULT, LATE = "ddp 25 MiB", "weft, late"
LEAST_STEPS, MOST_STEPS, SETTLED = 40, 150, 10
TURNS, SKIPPED, IN_A_ROW = 9, 1, 3
"""turns, those that do not count, and the steps of each"""
CLOSE = 2e-3
SEQUENCES = {(400, 64): 16, (400, 160): 16, (1000, 64): 8, (1000, 160): 7}
"""of a worker's batch, at so many Mbit/s and for a model so wide: so that communication is about half of the step"""
RANKS, SYMBOLS, LENGTH = 8, 64, 16


def measure(rate: int, width: int, overlap: str) -> dict[str, Any]:
    """On every rank."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    import weft.torch as wt
    from weft.training.models.transformer import transformer
    from weft.training.options import Transformer

    def model() -> nn.Module:
        torch.manual_seed(0)
        return transformer((LENGTH,), SYMBOLS, Transformer(width=width, heads=4, layers=10))

    def batch(number: int) -> tuple[torch.Tensor, torch.Tensor]:
        draw = torch.Generator().manual_seed(RANKS * number + dist.get_rank())
        text = torch.randint(SYMBOLS, (SEQUENCES[rate, width], LENGTH + 1), generator=draw)
        return text[:, :-1], text[:, 1:]

    def stepped(name: str, number: int) -> float:
        inputs, targets = batch(number)
        loss = nn.functional.cross_entropy(models[name](inputs).flatten(0, 1), targets.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizers[name].step()
        optimizers[name].zero_grad()
        return float(loss.detach())

    def turn(name: str, number: int) -> float:
        """Seconds a step."""
        dist.barrier()
        begun = time.perf_counter()
        for step in range(IN_A_ROW):
            stepped(name, number + step)
        return (time.perf_counter() - begun) / IN_A_ROW

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    begun = time.perf_counter()
    ours = wt.DataParallel(model(), plan="auto", overlap=overlap)
    planning = time.perf_counter() - begun
    models: dict[str, nn.Module] = {"weft": ours, "alone": model()}
    for cap in CAPS:
        models[f"ddp {cap} MiB"] = DistributedDataParallel(model(), bucket_cap_mb=None if cap == 25 else cap)
    optimizers: dict[str, torch.optim.Optimizer] = {
        name: torch.optim.SGD(one.parameters(), 0.01, 0.9) for name, one in models.items()
    }
    losses: dict[str, list[float]] = {"weft": [], DEFAULT: []}
    tuning, settled = time.perf_counter(), 0
    while (settled < SETTLED and len(losses["weft"]) < MOST_STEPS) or len(losses["weft"]) < LEAST_STEPS:
        losses["weft"].append(stepped("weft", len(losses["weft"])))
        settled += ours.overlap is not None
    tuning = time.perf_counter() - tuning
    for number in range(len(losses["weft"])):
        losses[DEFAULT].append(stepped(DEFAULT, number))
    late = wt.DataParallel(model(), ours.choice, overlap=ours.arrangement)
    models[LATE] = late
    optimizers[LATE] = wt.LateOptimizer(late, torch.optim.SGD(late.parameters(), 0.01, 0.9))
    times: dict[str, list[float]] = {name: [] for name in models}
    for number in range(TURNS):
        for name in models:
            times[name].append(turn(name, MOST_STEPS + IN_A_ROW * number))
    table = torch.tensor([times[name] for name in models], dtype=torch.float64)
    dist.all_reduce(table, dist.ReduceOp.MAX)
    medians = {name: median(row[SKIPPED:]) for name, row in zip(models, table.tolist(), strict=True)}
    found = report(medians, losses, ours)
    found |= {"planning_seconds": round(planning, 1), "tuning_seconds": round(tuning, 1)}
    if rank_0() and (path := os.environ.get("TRACE")):
        trace = ours.step_trace()
        assert trace is not None
        trace.save(Path(path))
    dist.barrier()
    dist.destroy_process_group()
    return found


def report(medians: dict[str, float], losses: dict[str, list[float]], ours: Any) -> dict[str, Any]:
    apart = max(abs(a - b) for a, b in zip(losses["weft"], losses[DEFAULT], strict=True))
    assert apart < CLOSE, f"losses differ by {apart}"
    weft = medians["weft"]
    ddp = {name: seconds for name, seconds in medians.items() if name.startswith("ddp")}
    found: dict[str, Any] = {
        "tensors": sum(1 for _ in ours.parameters()),
        "bytes": sum(ours.buckets),
        "seconds": {name: round(seconds, 4) for name, seconds in medians.items()},
        "communication_share_of_ddp": round(1 - medians["alone"] / ddp[DEFAULT], 3),
        "faster_than_ddp": round(ddp[DEFAULT] / weft, 3),
        "faster_than_best_ddp": round(min(ddp.values()) / weft, 3),
        "late_faster_than_ddp": round(ddp[DEFAULT] / medians[LATE], 3),
        "losses_differ_by": apart,
        "tuning_steps": len(losses["weft"]),
        "report": ours.report().splitlines(),
    }
    if ours.overlap is not None:
        predicted = ours.overlap.proposal.seconds
        found |= {"predicted_seconds": round(predicted, 4), "measured_over_predicted": round(weft / predicted, 3)}
    return found


def rank_0() -> bool:
    return os.environ["RANK"] == "0"


def emulated(rate: int, width: int, overlap: str, trace: Path | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.yaml"
        two_tier(2, 4, rate * MBIT, uplink=rate * MBIT).save(path)
        worker = [sys.executable, "-m", "benchmarks.overlap", f"{rate}x{width}", "--overlap", overlap, "--worker"]
        command = [sys.executable, "-m", "weft", "emulate", str(path), "--", *worker]
        environment = os.environ | ({"TRACE": str(trace.absolute())} if trace is not None else {})
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    every = [f"{rate}x{width}" for rate, width in SEQUENCES]
    parser.add_argument("cases", nargs="*", default=every, metavar="MBITxWIDTH", help=f"of {', '.join(every)}")
    parser.add_argument("--overlap", default="auto")
    parser.add_argument("--trace", type=Path, help="for the last step, of the last case")
    parser.add_argument("--worker", action="store_true", help="be one of the workers")
    args = parser.parse_args()
    if args.worker:
        rate, width = map(int, args.cases[0].split("x"))
        found = measure(rate, width, args.overlap)
        if rank_0():
            print(json.dumps(found))
        return
    rows = []
    for case in args.cases:
        rate, width = map(int, case.split("x"))
        row = {"rate": f"{rate} Mbit/s", "width": width, "sequences": SEQUENCES[rate, width]}
        rows.append(row | emulated(rate, width, args.overlap, args.trace))
        print(json.dumps(rows[-1]), flush=True)
    publish("overlap", turns=TURNS - SKIPPED, steps_a_turn=IN_A_ROW, rows=rows)


if __name__ == "__main__":
    main()
