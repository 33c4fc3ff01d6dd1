"""Batches: the gradient of one worker's batch, the same whoever computes it and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from weft.training.config import Training
from weft.training.data import Data
from weft.training.evaluation import loss_of
from weft.training.sampler import Position, Sampler
from weft.training.seeds import AUGMENTATION, RANK, derived


@dataclass
class Batches:
    """Examples by step and worker."""

    data: Data
    sampler: Sampler
    training: Training
    device: torch.device
    _positions: list[Position] = field(default_factory=lambda: [Position()])

    def position(self, step: int) -> Position:
        """Before a step, counted from 0."""
        while len(self._positions) <= step:
            self._positions.append(self.sampler.after(self._positions[-1]))
        return self._positions[step]

    def epoch(self, step: int) -> int:
        return self.position(step).epoch

    def share(self, step: int, epochs: int) -> float:
        return self.sampler.share(self.position(step), epochs)

    def backward(self, module: nn.Module, step: int, row: int) -> float:
        """Add the gradients of a worker's batch to those of its module; the loss.

        Random numbers (dropout) are a worker's and a step's own, so they do not depend on who came before.
        """
        torch.manual_seed(derived(RANK, self.training.seed, row, step))
        indices = self.sampler.indices(self.position(step), row)
        pieces = indices.chunk(self.training.accumulate)
        total = 0.0
        for number, piece in enumerate(pieces):
            seed = derived(AUGMENTATION, self.training.seed, step, row, number)
            inputs, targets = self.data.batch(self.data.train, piece, self.device, seed)
            loss = loss_of(module(inputs), targets) / len(pieces)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return total
