"""One step of the training, and what all workers know about it afterwards."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from weft.runtime import together
from weft.torch import DataParallel
from weft.training.config import Config
from weft.training.data import Data
from weft.training.evaluation import loss_of
from weft.training.joining import Place
from weft.training.metrics import StepRecord
from weft.training.rates import learning_rate, set_rate
from weft.training.sampler import Position, Sampler
from weft.training.seeds import AUGMENTATION, derived


@dataclass(frozen=True, slots=True)
class Finished:
    """A step of this worker, whose sums over all workers are on their way."""

    position: Position
    """after the step"""
    epoch: int
    rate: float
    samples: int
    sums: torch.Tensor
    work: Any

    def told(self, world: int, elapsed: float) -> tuple[StepRecord, int]:
        """The record of the step, and the number of the signal by which somebody asked to stop, or 0."""
        self.work.wait()
        loss, total, communication, exposed, sent, asked, signals = self.sums.tolist()
        seconds = total / world
        record = StepRecord(
            step=self.position.step, epoch=self.epoch + 1, loss=loss / world, samples=self.samples, seconds=seconds,
            elapsed=elapsed + seconds, communication_seconds=communication / world, exposed_seconds=exposed / world,
            bytes_sent=round(sent), learning_rate=self.rate,
        )  # fmt: skip
        return record, round(signals / asked) if asked else 0


@dataclass(frozen=True, slots=True)
class Stepper:
    """All that a step needs, except where it is."""

    config: Config
    data: Data
    sampler: Sampler
    model: DataParallel
    optimizer: torch.optim.Optimizer
    place: Place

    def step(self, position: Position, stop: int) -> Finished:
        """Compute, synchronize and update. ``stop`` is the signal by which this worker was asked to stop, or 0."""
        begun = time.perf_counter()
        share = self.sampler.share(position, self.config.training.epochs)
        rate = learning_rate(self.config.optimizer, share, position.step)
        set_rate(self.optimizer, rate)
        self.optimizer.zero_grad()
        loss = self._backward(position)
        if self.config.optimizer.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.module.parameters(), self.config.optimizer.clip_norm)
        self.optimizer.step()
        spent = self.model.take_statistics()
        seconds = time.perf_counter() - begun
        numbers = (seconds, spent.communication_seconds, spent.exposed_seconds, spent.bytes_sent, float(stop > 0), stop)
        sums = torch.tensor([0.0, *numbers], dtype=torch.float64, device=self.place.device)
        sums[0] = loss
        work = self._summed(sums)
        return Finished(self.sampler.after(position), position.epoch, rate, self.sampler.step_examples, sums, work)

    def _summed(self, sums: torch.Tensor) -> Any:
        """Have the numbers added up over all workers; they are looked at one step later, when they have long arrived."""
        return together.all_reduce_later(sums)

    def _backward(self, position: Position) -> torch.Tensor:
        """Gradients of this worker's batch, averaged over workers; the loss of the batch."""
        indices = self.sampler.indices(position, self.place.rank)
        pieces = indices.chunk(self.config.training.accumulate)
        total = torch.zeros((), dtype=torch.float64, device=self.place.device)
        for number, piece in enumerate(pieces):
            seed = derived(AUGMENTATION, self.config.training.seed, position.step, self.place.rank, number)
            inputs, targets = self.data.batch(self.data.train, piece, self.place.device, seed)
            last = number == len(pieces) - 1
            with nullcontext() if last else self.model.no_sync():
                loss = loss_of(self.model(inputs), targets) / len(pieces)
                loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total
