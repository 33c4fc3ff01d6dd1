"""Sampler: which examples a worker sees in which step.

Every epoch has its own order of all examples, from the seed and the number of the epoch. A step takes the next ``batch`` times
``world`` of them, a worker its own part of these, so no example is seen twice in an epoch. What is left at the end of
an epoch and does not fill a step is left out of this epoch, each time something else; so all workers always have batches
of one size, and the average of their gradients is that of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from weft.errors import InputError
from weft.training.seeds import ORDER, derived


@dataclass(frozen=True, slots=True)
class Position:
    """How far the training is: finished steps, and how many examples of the current epoch they took."""

    step: int = 0
    epoch: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Sampler:
    """Positions and the examples that belong to them."""

    examples: int
    batch: int
    world: int
    seed: int

    def __post_init__(self) -> None:
        if self.step_examples > self.examples:
            raise InputError(
                f"training.batch: {self.world} workers with batches of {self.batch} take {self.step_examples} examples a "
                f"step, and there are only {self.examples}; make the batch smaller"
            )

    @property
    def step_examples(self) -> int:
        return self.batch * self.world

    @property
    def epoch_steps(self) -> int:
        return self.examples // self.step_examples

    def indices(self, position: Position, rank: int) -> torch.Tensor:
        """The examples of a worker in the step that follows a position."""
        first = position.offset + rank * self.batch
        return torch.from_numpy(_order(self.examples, self.seed, position.epoch)[first : first + self.batch])

    def after(self, position: Position) -> Position:
        """The position one step later."""
        offset = position.offset + self.step_examples
        if offset + self.step_examples > self.examples:
            return Position(position.step + 1, position.epoch + 1, 0)
        return Position(position.step + 1, position.epoch, offset)

    def share(self, position: Position, epochs: int) -> float:
        """How much of the whole training lies before a position, from 0 to 1."""
        return min(1.0, (position.epoch + position.offset / self.examples) / epochs)


@lru_cache(maxsize=2)
def _order(examples: int, seed: int, epoch: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.random.default_rng(derived(ORDER, seed, epoch)).permutation(examples)
