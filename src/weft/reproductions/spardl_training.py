"""What sparse synchronization does to accuracy, trained in memory: a CNN on Fashion-MNIST, not the paper's models on CIFAR-10.

All workers hold the same model, so one is enough: their gradients are computed one after the other, and reduced by the same code
as on a network. The paper trains by plain SGD at a rate of 0.1, which falls to a tenth after two thirds; so does Figure 8 here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from weft.reproductions.findings import Progress, silent
from weft.sparse import Compression, ErrorFeedback, converse

if TYPE_CHECKING:
    import torch
    from torch import nn

    from weft.training.batches import Batches

    Rows = list[torch.Tensor]
    """every worker's gradient, flat"""
    Reduce = Callable[[Rows], torch.Tensor]
    """the mean of the rows, or what comes instead of it"""

WORKERS, DENSITY, EPOCHS = 8, 0.01, 4
MODEL = """
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
{optimizer}
"""
PLAIN = 'learning_rate = 0.1\nmomentum = 0.0\nschedule = "steps"\nmilestones = [0.667]'
FIGURE_8: Mapping[str, Compression | None] = {
    "dense": None,
    "SparDL-gres": Compression("spardl", DENSITY),
    "SparDL-pres": Compression("spardl", DENSITY, residuals="partial"),
    "SparDL-lres": Compression("spardl", DENSITY, residuals="local"),
    "SparDL, 2 teams": Compression("spardl", DENSITY, teams=2),
    "Ok-Topk": Compression("ok-topk", DENSITY),
}
"""The paper's three ways to collect residuals; and for the accuracies of Figures 6 and 7, teams and the best rival."""


@dataclass(frozen=True, slots=True)
class Training:
    """One run: accuracies in percent and mean losses, epoch by epoch."""

    method: str
    seed: int
    accuracy: tuple[float, ...]
    loss: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """One method, over all seeds."""

    method: str
    by_epoch: tuple[float, ...]
    """the mean, in percent"""
    deviation: float
    """of the last epoch's"""
    seeds: int


def dense_mean(rows: Rows) -> torch.Tensor:
    """What dense synchronization gives."""
    import torch

    return torch.stack(rows).mean(0)


def sparse_mean(compression: Compression, workers: int = WORKERS) -> Reduce:
    """What a sparse method gives, with what it keeps from call to call."""
    import torch

    feedbacks = [ErrorFeedback(compression, rank, workers) for rank in range(workers)]

    def reduced(rows: Rows) -> torch.Tensor:
        talk = converse([f.part(row.numpy()) for f, row in zip(feedbacks, rows, strict=True)])
        return torch.from_numpy(talk.results[0].dense(len(rows[0])))

    return reduced


def trained(
    folder: Path, optimizer: str, reduce: Callable[[Sequence[torch.Size]], Reduce], seed: int, epochs: int = EPOCHS
) -> Iterator[tuple[float, float]]:
    """Accuracy in percent and mean loss, after every epoch. ``reduce`` is made for the shapes of the parameters."""
    import torch

    from weft.training import config_of
    from weft.training.batches import Batches
    from weft.training.joining import Place
    from weft.training.judging import judged
    from weft.training.preparation import prepared
    from weft.training.rates import learning_rate, optimizer_of, set_rate
    from weft.training.sampler import Sampler

    text = MODEL.format(folder=folder.absolute(), seed=seed, epochs=epochs, optimizer=optimizer)
    config = config_of(text, Path("spardl.toml"))
    place = Place(0, WORKERS, torch.device("cpu"))
    data, model = prepared(config, place)
    sampler = Sampler(len(data.train), config.training.batch, WORKERS, seed)
    batches = Batches(data, sampler, config.training, place.device)
    stepping = optimizer_of(config.optimizer, model.parameters())
    reduced = reduce([parameter.shape for parameter in model.parameters()])
    for epoch in range(epochs):
        losses = []
        model.train()
        for step in range(epoch * sampler.epoch_steps, (epoch + 1) * sampler.epoch_steps):
            set_rate(stepping, learning_rate(config.optimizer, batches.share(step, epochs), step))
            rows, loss = _gradients(model, batches, step)
            _give(model, reduced(rows))
            stepping.step()
            losses.append(loss)
        yield round(100 * judged(model, data, place.device)[1], 2), round(fmean(losses), 5)


def _gradients(model: nn.Module, batches: Batches, step: int) -> tuple[Rows, float]:
    """Of every worker, and the mean loss."""
    import torch

    rows, losses = [], []
    for worker in range(WORKERS):
        model.zero_grad()
        losses.append(batches.backward(model, step, worker))
        rows.append(torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]))
    return rows, fmean(losses)


def _give(model: nn.Module, flat: torch.Tensor) -> None:
    at = 0
    for parameter in model.parameters():
        parameter.grad = flat[at : at + parameter.numel()].view_as(parameter).clone()
        at += parameter.numel()


def figure_8(folder: Path, seeds: Sequence[int], epochs: int = EPOCHS, progress: Progress = silent) -> list[Training]:
    """Every method for every seed."""
    found: list[Training] = []
    for seed in seeds:
        for method, compression in FIGURE_8.items():
            progress(len(found), len(seeds) * len(FIGURE_8))
            reduce = dense_mean if compression is None else sparse_mean(compression)
            rows = list(trained(folder, PLAIN, lambda _, way=reduce: way, seed, epochs))  # type: ignore[misc]
            accuracy, loss = zip(*rows, strict=True)
            found.append(Training(method, seed, accuracy, loss))
    return found


def accuracies(found: Sequence[Training]) -> list[Accuracy]:
    """By method, in the order in which they came."""
    means = []
    for method in dict.fromkeys(one.method for one in found):
        own = [one.accuracy for one in found if one.method == method]
        last = [accuracy[-1] for accuracy in own]
        by_epoch = tuple(fmean(epoch) for epoch in zip(*own, strict=True))
        means.append(Accuracy(method, by_epoch, stdev(last) if len(last) > 1 else 0.0, len(own)))
    return means
