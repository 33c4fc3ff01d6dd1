"""What sparse synchronization does to accuracy: a CNN on Fashion-MNIST, 8 workers in memory, density 1%, three seeds.

    python -m benchmarks.convergence_sparse spardl 0 --data FOLDER        one run, unless it is there
    python -m benchmarks.convergence_sparse --publish                     the table of all runs so far

Methods: dense; spardl with global, partial and local residuals, with a warm-up, and with momentum correction besides; the three
kinds of residuals at a density of 0.1% too ("thin"), where more is left over; and what DDP's users can switch on, fp16 (rounded
when sent, added up in float32) and PowerSGD of rank 2 and 4 with error feedback. All workers
hold the same model, so one is enough: their gradients are computed one after the other, and reduced in memory by the same code as
on a network.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.publishing import RESULTS, publish
from weft.files import write_atomically
from weft.sparse import Compression, ErrorFeedback, converse
from weft.training import config_of
from weft.training.batches import Batches
from weft.training.joining import Place
from weft.training.judging import judged
from weft.training.preparation import prepared
from weft.training.rates import learning_rate, optimizer_of, set_rate
from weft.training.sampler import Sampler

WORKERS, DENSITY, THIN, EPOCHS = 8, 0.01, 0.001, 4
WARM_UP = 468
"""calls in which the density falls to what is asked for: the first epoch"""
SEEDS = (0, 1, 2)
RUNS = RESULTS / "sparse-convergence"
CONFIG = """
[model]
name = "cnn"
width = 8
hidden = 64
[data]
name = "fashion-mnist"
folder = "{folder}"
[training]
epochs = {epochs}
batch = 16
seed = {seed}
device = "cpu"
[optimizer]
learning_rate = 0.05
momentum = {momentum}
"""
Rows = list[torch.Tensor]
"""every worker's gradient, flat"""


class Dense:
    """The mean, and nothing is kept."""

    def __call__(self, rows: Rows) -> torch.Tensor:
        return torch.stack(rows).mean(0)


class HalfPrecision(Dense):
    """Every message rounded, sums in float32."""

    def __call__(self, rows: Rows) -> torch.Tensor:
        return torch.stack([row.div(WORKERS).half().float() for row in rows]).sum(0).half().float()


class Sparse(Dense):
    """By error feedback."""

    def __init__(self, compression: Compression) -> None:
        self._feedbacks = [ErrorFeedback(compression, rank, WORKERS) for rank in range(WORKERS)]

    def __call__(self, rows: Rows) -> torch.Tensor:
        talk = converse([f.part(row.numpy()) for f, row in zip(self._feedbacks, rows, strict=True)])
        return torch.from_numpy(talk.results[0].dense(len(rows[0])))


class PowerSgd(Dense):
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


METHODS: dict[str, Callable[[list[torch.Size]], Dense]] = {
    "dense": lambda _: Dense(),
    "spardl": lambda _: Sparse(Compression("spardl", DENSITY)),
    "spardl-warm": lambda _: Sparse(Compression("spardl", DENSITY, warmup=WARM_UP)),
    "spardl-corrected": lambda _: Sparse(Compression("spardl", DENSITY, warmup=WARM_UP, momentum=0.9)),
    "spardl-partial": lambda _: Sparse(Compression("spardl", DENSITY, residuals="partial")),
    "spardl-local": lambda _: Sparse(Compression("spardl", DENSITY, residuals="local")),
    "thin": lambda _: Sparse(Compression("spardl", THIN)),
    "thin-partial": lambda _: Sparse(Compression("spardl", THIN, residuals="partial")),
    "thin-local": lambda _: Sparse(Compression("spardl", THIN, residuals="local")),
    "fp16": lambda _: HalfPrecision(),
    "powersgd-2": lambda shapes: PowerSgd(shapes, 2),
    "powersgd-4": lambda shapes: PowerSgd(shapes, 4),
}


def gradients(model: nn.Module, batches: Batches, step: int) -> tuple[Rows, float]:
    """Of every worker, and the mean loss."""
    rows, losses = [], []
    for worker in range(WORKERS):
        model.zero_grad()
        losses.append(batches.backward(model, step, worker))
        rows.append(torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]))
    return rows, fmean(losses)


@torch.no_grad()
def give(model: nn.Module, flat: torch.Tensor) -> None:
    at = 0
    for parameter in model.parameters():
        parameter.grad = flat[at : at + parameter.numel()].view_as(parameter).clone()
        at += parameter.numel()


def run(method: str, seed: int, folder: Path, epochs: int) -> None:
    """Train once, unless that is done."""
    path = RUNS / f"{method}-{seed}-{epochs}.json"
    if path.exists():
        print(f"{path.name} is there already")
        return
    torch.set_num_threads(1)  # batches are small
    momentum = 0.0 if method == "spardl-corrected" else 0.9  # corrected momentum takes the place of the optimizer's
    text = CONFIG.format(folder=folder.absolute(), seed=seed, epochs=epochs, momentum=momentum)
    config = config_of(text, Path("study.toml"))
    place = Place(0, WORKERS, torch.device("cpu"))
    data, model = prepared(config, place)
    batches = Batches(
        data, Sampler(len(data.train), config.training.batch, WORKERS, seed), config.training, place.device
    )
    optimizer = optimizer_of(config.optimizer, model.parameters())
    reduce = METHODS[method]([p.shape for p in model.parameters()])
    found: dict[str, Any] = {"method": method, "seed": seed, "accuracy": [], "loss": [], "epochs": epochs}
    for epoch in range(epochs):
        begun, losses = time.monotonic(), []
        model.train()
        for step in range(epoch * batches.sampler.epoch_steps, (epoch + 1) * batches.sampler.epoch_steps):
            set_rate(optimizer, learning_rate(config.optimizer, batches.share(step, epochs), step))
            rows, loss = gradients(model, batches, step)
            give(model, reduce(rows))
            optimizer.step()
            losses.append(loss)
        found["accuracy"].append(round(100 * judged(model, data, place.device)[1], 2))
        found["loss"].append(round(fmean(losses), 5))
        print(method, seed, found["accuracy"], f"{time.monotonic() - begun:.0f} s an epoch", flush=True)
    RUNS.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(found) + "\n")


def table(epochs: int) -> None:
    """Of all runs so far."""
    done = [json.loads(path.read_text()) for path in sorted(RUNS.glob(f"*-{epochs}.json"))]
    means = {}
    for method in METHODS:
        last = [one["accuracy"][-1] for one in done if one["method"] == method]
        if last:
            means[method] = {"mean": round(fmean(last), 2), "std": round(float(np.std(last)), 2), "seeds": len(last)}
    apart = {
        name: round(found["mean"] - means["dense"]["mean"], 2) for name, found in means.items() if "dense" in means
    }
    print(json.dumps({"accuracy": means, "points_from_dense": apart}, indent=2))
    publish(
        "sparse-convergence", workers=WORKERS, density=DENSITY, thin_density=THIN, epochs=epochs, model="cnn, width 8, hidden 64",
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
