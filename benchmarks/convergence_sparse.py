"""What sparse synchronization does to accuracy: a CNN on Fashion-MNIST, 8 workers in memory, density 1%, three seeds.

    python -m benchmarks.convergence_sparse spardl 0 --data FOLDER        one run, unless it is there
    python -m benchmarks.convergence_sparse --publish                     the table of all runs so far

Methods: dense; spardl with global, partial and local residuals, with a warm-up, and with momentum correction besides; the three
kinds of residuals at a density of 0.1% too ("thin"), and by plain SGD as the paper trains ("plain"), also in two teams, thin,
and with 32 workers that share the same batch ("many"), which drop more on the way; and what DDP's users can switch on, fp16
(rounded when sent, added up in float32) and PowerSGD of rank 2 and 4 with error feedback.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from benchmarks.publishing import RESULTS, publish
from weft.files import write_atomically
from weft.reproductions.spardl_training import DENSITY, EPOCHS, PLAIN, WORKERS, training_of
from weft.sparse import Compression
from weft.training.one_model import Reduce, Rows, dense_mean, sparse_mean, trained

THIN = 0.001
MANY = 32
"""workers, instead of eight with four times as many examples each"""
WARM_UP = 468
"""calls in which the density falls to what is asked for: the first epoch"""
RUNS = RESULTS / "sparse-convergence"
MOMENTUM = "learning_rate = 0.05\nmomentum = 0.9"
CORRECTED = "learning_rate = 0.05\nmomentum = 0.0"
"""corrected momentum takes the place of the optimizer's"""


def half_mean(rows: Rows) -> torch.Tensor:
    """Every message rounded, sums in float32."""
    return torch.stack([row.div(WORKERS).half().float() for row in rows]).sum(0).half().float()


class PowerSgd:
    """Vogels et al. 2019: matrices by their rank, with what is left over; vectors as they are."""

    def __init__(self, shapes: Sequence[torch.Size], rank: int) -> None:
        draw = torch.Generator().manual_seed(0)
        self._shapes = shapes
        self._guesses = [torch.randn(s.numel() // s[0], rank, generator=draw) for s in shapes]
        self._left = [torch.zeros(sum(s.numel() for s in shapes)) for _ in range(WORKERS)]

    def __call__(self, rows: Rows) -> torch.Tensor:
        given = [row + left for row, left in zip(rows, self._left, strict=True)]
        result, at = torch.empty_like(given[0]), 0
        for number, shape in enumerate(self._shapes):
            part = slice(at, at + shape.numel())
            at += shape.numel()
            if len(shape) < 2:
                result[part] = torch.stack([one[part] for one in given]).mean(0)
                continue
            matrices = [one[part].view(shape[0], -1) for one in given]
            left, _ = torch.linalg.qr(torch.stack([m @ self._guesses[number] for m in matrices]).mean(0))
            self._guesses[number] = torch.stack([m.T @ left for m in matrices]).mean(0)
            result[part] = (left @ self._guesses[number].T).reshape(-1)
        self._left = [one - result for one in given]
        return result


def sparse(density: float = DENSITY, workers: int = WORKERS, **options: Any) -> Reduce:
    return sparse_mean(Compression("spardl", density, **options), workers)


METHODS: dict[str, tuple[str, Callable[[Sequence[torch.Size]], Reduce]]] = {
    "dense": (MOMENTUM, lambda _: dense_mean),
    "spardl": (MOMENTUM, lambda _: sparse()),
    "spardl-warm": (MOMENTUM, lambda _: sparse(warmup=WARM_UP)),
    "spardl-corrected": (CORRECTED, lambda _: sparse(warmup=WARM_UP, momentum=0.9)),
    "spardl-partial": (MOMENTUM, lambda _: sparse(residuals="partial")),
    "spardl-local": (MOMENTUM, lambda _: sparse(residuals="local")),
    "thin": (MOMENTUM, lambda _: sparse(THIN)),
    "thin-partial": (MOMENTUM, lambda _: sparse(THIN, residuals="partial")),
    "thin-local": (MOMENTUM, lambda _: sparse(THIN, residuals="local")),
    "plain-dense": (PLAIN, lambda _: dense_mean),
    "plain-global": (PLAIN, lambda _: sparse()),
    "plain-partial": (PLAIN, lambda _: sparse(residuals="partial")),
    "plain-local": (PLAIN, lambda _: sparse(residuals="local")),
    "plain-teams-global": (PLAIN, lambda _: sparse(teams=2)),
    "plain-teams-partial": (PLAIN, lambda _: sparse(teams=2, residuals="partial")),
    "plain-teams-local": (PLAIN, lambda _: sparse(teams=2, residuals="local")),
    "plain-thin-global": (PLAIN, lambda _: sparse(THIN)),
    "plain-thin-partial": (PLAIN, lambda _: sparse(THIN, residuals="partial")),
    "plain-thin-local": (PLAIN, lambda _: sparse(THIN, residuals="local")),
    "plain-many-global": (PLAIN, lambda _: sparse(workers=MANY)),
    "plain-many-partial": (PLAIN, lambda _: sparse(workers=MANY, residuals="partial")),
    "plain-many-local": (PLAIN, lambda _: sparse(workers=MANY, residuals="local")),
    "fp16": (MOMENTUM, lambda _: half_mean),
    "powersgd-2": (MOMENTUM, lambda shapes: PowerSgd(shapes, 2)),
    "powersgd-4": (MOMENTUM, lambda shapes: PowerSgd(shapes, 4)),
}


def run(method: str, seed: int, folder: Path, epochs: int) -> None:
    """Train once, unless that is done."""
    path = RUNS / f"{method}-{seed}-{epochs}.json"
    if path.exists():
        print(f"{path.name} is there already")
        return
    torch.set_num_threads(1)  # batches are small
    found: dict[str, Any] = {"method": method, "seed": seed, "accuracy": [], "loss": [], "epochs": epochs}
    begun = time.monotonic()
    optimizer, reduce = METHODS[method]
    workers = MANY if "many" in method else WORKERS
    config = training_of(folder, optimizer, seed, epochs)
    config = replace(config, training=replace(config.training, batch=config.training.batch * WORKERS // workers))
    for accuracy, loss in trained(config, workers, reduce):
        found["accuracy"].append(accuracy)
        found["loss"].append(loss)
        print(method, seed, found["accuracy"], f"{time.monotonic() - begun:.0f} s", flush=True)
    RUNS.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(found) + "\n")


def table(epochs: int) -> None:
    """Of all runs so far."""
    done = [json.loads(path.read_text()) for path in sorted(RUNS.glob(f"*-{epochs}.json"))]
    means = {}
    for method in METHODS:
        mine = [one for one in done if one["method"] == method]
        if mine:
            last = [one["accuracy"][-1] for one in mine]
            means[method] = {
                "mean": round(fmean(last), 2),
                "std": round(float(np.std(last)), 2),
                "training_loss": round(fmean(one["loss"][-1] for one in mine), 4),
                "seeds": len(last),
            }
    apart = {}
    for name, found in means.items():
        base = means.get("plain-dense" if name.startswith("plain") else "dense")
        if base is not None:
            apart[name] = round(found["mean"] - base["mean"], 2)
    print(json.dumps({"accuracy": means, "points_from_dense": apart}, indent=2))
    publish(
        f"sparse-convergence-{epochs}", workers=WORKERS, many_workers=MANY,
        density=DENSITY, thin_density=THIN, epochs=epochs, model="cnn, width 8, hidden 64",
        data="fashion-mnist", accuracy=means, points_from_dense=apart, runs=done,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method", nargs="?", choices=METHODS)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--publish", action="store_true")
    args = parser.parse_args()
    if args.publish:
        table(args.epochs)
    else:
        run(args.method, args.seed, args.data, args.epochs)


if __name__ == "__main__":
    main()
