"""What sparse synchronization does to accuracy, trained in memory: a CNN on Fashion-MNIST, not the paper's models on CIFAR-10.

The paper trains by plain SGD at a rate of 0.1, which falls to a tenth after two thirds; so does Figure 8 here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from weft.reproductions.fashion import CNN
from weft.reproductions.findings import Progress, silent
from weft.sparse import Compression

if TYPE_CHECKING:
    from weft.training import Config

WORKERS, DENSITY, EPOCHS = 8, 0.01, 4
TRAINING = (
    CNN
    + """batch = 16
[optimizer]
{optimizer}
"""
)
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


def training_of(folder: Path, optimizer: str, seed: int, epochs: int) -> Config:
    """The training, with this optimizer."""
    from weft.training import config_of

    text = TRAINING.format(folder=folder.absolute(), seed=seed, epochs=epochs, optimizer=optimizer)
    return config_of(text, Path("spardl.toml"))


def figure_8(folder: Path, seeds: Sequence[int], epochs: int = EPOCHS, progress: Progress = silent) -> list[Training]:
    """Every method for every seed."""
    found: list[Training] = []
    for seed in seeds:
        for method, compression in FIGURE_8.items():
            progress(len(found), len(seeds) * len(FIGURE_8))
            found.append(_trained(method, compression, seed, training_of(folder, PLAIN, seed, epochs)))
    return found


def _trained(method: str, compression: Compression | None, seed: int, config: Config) -> Training:
    from weft.training.one_model import dense_mean, sparse_mean, trained

    reduce = dense_mean if compression is None else sparse_mean(compression, WORKERS)
    accuracy, loss = zip(*trained(config, WORKERS, lambda _: reduce), strict=True)
    return Training(method, seed, accuracy, loss)


def accuracies(found: Sequence[Training]) -> list[Accuracy]:
    """By method, in the order in which they came."""
    means = []
    for method in dict.fromkeys(one.method for one in found):
        own = [one.accuracy for one in found if one.method == method]
        last = [accuracy[-1] for accuracy in own]
        by_epoch = tuple(fmean(epoch) for epoch in zip(*own, strict=True))
        means.append(Accuracy(method, by_epoch, stdev(last) if len(last) > 1 else 0.0, len(own)))
    return means
