"""The convergence part of DS-Sync's Tables III to V, trained in memory: a CNN on Fashion-MNIST, not WideResNet on CIFAR-10.

Eight workers, a batch of 32 each. BSP and gossip compute the same on every network; DS-Sync has one pattern for 5 + 3 workers
with a slow one, and one for 4 + 4, where a slow uplink changes nothing in the paper (here it may be crossed by halves:
``inter-rack`` as a scenario of ``curve`` trains that); the order in which ASP's gradients come depends on the
network, so it is trained in every scenario. How long a step takes is simulated for CIFAR-10's model of the paper. Every run is
tested with and without the ensemble of exponential averages, whatever its strategy: what the ensemble does is not what the
groups do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from weft.reproductions.ds_sync import BYTES, SCENARIOS, Row
from weft.reproductions.fashion import CNN
from weft.reproductions.findings import Progress, silent

if TYPE_CHECKING:
    from weft.training.config import Config

COMPUTE = 0.1
"""Seconds that a worker computes in a step; the paper does not say."""
TEST_STEPS = 39
"""between two tests: six in an epoch of Fashion-MNIST"""
TRAINING = (
    CNN
    + """batch = 32
[optimizer]
learning_rate = 0.05
[strategy]
name = "{strategy}"
ensemble = 0.99
parts = {parts}
compute_seconds = {compute}
"""
)
RUNS = (
    ("bsp", "static"),
    ("ds-sync", "static"),
    ("gossip", "static"),
    ("asp", "static"),
    ("ds-sync", "inter-rack and end-host"),
    ("asp", "inter-rack"),
    ("asp", "inter-rack and end-host"),
)
"""What has to be trained: a strategy, and the scenario it is trained in."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One run: accuracies after so many steps, of the parameters' mean and of the ensemble, and the time so far."""

    strategy: str
    scenario: str
    seed: int
    steps: tuple[int, ...]
    plain: tuple[float, ...]
    ensemble: tuple[float, ...]
    elapsed: tuple[float, ...]

    def accuracies(self, ensemble: bool) -> tuple[float, ...]:
        return self.ensemble if ensemble else self.plain

    def reached(self, target: float, ensemble: bool) -> int | None:
        """After which test the target was reached first: a place in ``steps``."""
        return next((i for i, accuracy in enumerate(self.accuracies(ensemble)) if accuracy >= target), None)


def curves(
    folder: Path,
    seeds: Sequence[int],
    epochs: int = 4,
    progress: Progress = silent,
    runs: Sequence[tuple[str, str]] = RUNS,
) -> list[Curve]:
    """Every run for every seed."""
    found: list[Curve] = []
    for seed in seeds:
        for strategy, scenario in runs:
            progress(len(found), len(seeds) * len(runs))
            found.append(curve(folder, strategy, scenario, seed, epochs))
    return found


def curve(folder: Path, strategy: str, scenario: str, seed: int, epochs: int, parts: int = 1) -> Curve:
    """Train once; with ``parts``, parameters are averaged so many times as slowly."""
    from weft.strategies import StepClock
    from weft.training.in_memory import memory_training

    case = SCENARIOS[scenario]
    training = memory_training(_config(folder, strategy, seed, epochs, parts), case.network, evaluate_steps=TEST_STEPS)
    conditions = case.conditions("half")
    training.clock = StepClock(case.network, BYTES["cifar10"] / parts, COMPUTE, conditions=lambda _: conditions)
    rows: list[tuple[int, float, float, float]] = []
    for record in training.records():
        if record.accuracy is not None:
            plain = record.accuracy
            if training.replicas.averages is not None:
                mean_row = training.replicas.table.data.mean(dim=0)
                plain = training.judge.of_row(mean_row, training.replicas.modules)[1]
            rows.append((record.step, plain, record.accuracy, record.elapsed))
    steps, plains, ensembles, elapsed = zip(*rows, strict=True)
    return Curve(strategy, scenario, seed, steps, plains, ensembles, elapsed)


def _config(folder: Path, strategy: str, seed: int, epochs: int, parts: int) -> Config:
    from weft.training.config import config_of

    text = TRAINING.format(folder=folder, epochs=epochs, seed=seed, strategy=strategy, compute=COMPUTE, parts=parts)
    return config_of(text, Path("ds-sync.toml"))


@dataclass(frozen=True, slots=True)
class Convergence:
    """One strategy in one scenario, over all seeds."""

    strategy: str
    scenario: str
    ensemble: bool
    best: tuple[float, ...]
    """the best accuracy of every seed"""
    steps: tuple[int | None, ...]
    """to the target, for every seed; None: never"""
    seconds: tuple[float | None, ...]

    @property
    def accuracy(self) -> float:
        return mean(self.best)

    @property
    def deviation(self) -> float:
        return stdev(self.best) if len(self.best) > 1 else 0.0

    @property
    def mean_steps(self) -> float | None:
        """None if any seed never reached the target."""
        return mean(step for step in self.steps if step is not None) if None not in self.steps else None

    @property
    def mean_seconds(self) -> float | None:
        return mean(time for time in self.seconds if time is not None) if None not in self.seconds else None


def target_of(found: Sequence[Curve]) -> float:
    """The lowest of BSP's best accuracies, as in the paper."""
    return min(max(one.plain) for one in found if one.strategy == "bsp")


def convergence(found: Sequence[Curve], strategy: str, scenario: str, ensemble: bool, row: Row) -> Convergence:
    """A strategy in a scenario; runs on another network count where only time differs."""
    own = [one for one in found if one.strategy == strategy and one.scenario == scenario]
    own = own or [one for one in found if one.strategy == strategy and one.scenario == "static"]
    target = target_of(found)
    places = [one.reached(target, ensemble) for one in own]
    steps = tuple(None if place is None else one.steps[place] for one, place in zip(own, places, strict=True))
    if strategy == "asp":
        seconds = tuple(None if place is None else one.elapsed[place] for one, place in zip(own, places, strict=True))
    else:
        method = {"bsp": "ar"}.get(strategy, strategy)
        each = COMPUTE + row.seconds(method)
        seconds = tuple(None if step is None else step * each for step in steps)
    best = tuple(max(one.accuracies(ensemble)) for one in own)
    return Convergence(strategy, scenario, ensemble, best, steps, seconds)
