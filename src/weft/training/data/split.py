"""Data and Split: examples in memory, and batches of them as a model takes them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.nn import functional

from weft.errors import InputError

PADDING = 4
"""pixels by which a training image may be moved"""


@dataclass(frozen=True, slots=True)
class Split:
    """Inputs, and for each a class, or one class at every position."""

    inputs: torch.Tensor
    targets: torch.Tensor

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            raise InputError(f"{len(self.inputs)} inputs have {len(self.targets)} targets: there must be one for each")
        if len(self.inputs) == 0:
            raise InputError("there are no examples")
        if self.targets.is_floating_point():
            raise InputError(f"targets are classes, and so whole numbers, not {self.targets.dtype}")

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, slots=True)
class Data:
    """What to train on and what to test on.

    Images may be bytes, a quarter of the memory; in a batch they become numbers with ``mean`` 0 and ``deviation`` 1. With
    ``augment``, training images are moved by up to four pixels and mirrored at random.
    """

    train: Split
    test: Split
    classes: int
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    augment: bool = field(default=False)

    def __post_init__(self) -> None:
        if self.train.inputs.shape[1:] != self.test.inputs.shape[1:]:
            shapes = [tuple(split.inputs.shape[1:]) for split in (self.train, self.test)]
            raise InputError(f"training inputs have the shape {shapes[0]} and test inputs {shapes[1]}")
        for name, split in (("training", self.train), ("test", self.test)):
            least, most = int(split.targets.min()), int(split.targets.max())
            if least < 0 or most >= self.classes:
                raise InputError(f"{name} targets go from {least} to {most}; with {self.classes} classes they must not")

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one input."""
        return tuple(self.train.inputs.shape[1:])

    def batch(
        self, split: Split, indices: torch.Tensor, device: torch.device, seed: int | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of these examples; a seed makes them a training batch, which may be augmented."""
        inputs = split.inputs[indices].to(device)
        if self.mean:
            shape = (-1,) + (1,) * (inputs.ndim - 2)
            mean = torch.tensor(self.mean, device=device).view(shape)
            deviation = torch.tensor(self.deviation, device=device).view(shape)
            inputs = (inputs.float() - mean) / deviation
        if self.augment and seed is not None:
            inputs = moved_and_mirrored(inputs, torch.Generator().manual_seed(seed))
        return inputs, split.targets[indices].to(device, torch.int64)


def moved_and_mirrored(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Each image moved by up to ``PADDING`` pixels, with zeros where there was nothing, and half of them mirrored."""
    count, _, height, width = images.shape
    padded = functional.pad(images, (PADDING,) * 4)
    down, right = torch.randint(0, 2 * PADDING + 1, (2, count, 1), generator=random).to(images.device)
    mirrored = torch.rand(count, 1, generator=random).to(images.device) < 0.5
    rows = down + torch.arange(height, device=images.device)
    columns = torch.arange(width, device=images.device).expand(count, width)
    columns = right + torch.where(mirrored, columns.flip(1), columns)
    which = torch.arange(count, device=images.device)[:, None, None]
    return padded[which, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def statistics(inputs: torch.Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of every channel, from at most 10,000 images."""
    some = inputs[:10_000].double()
    axes = (0, *range(2, some.ndim))
    return tuple(some.mean(axes).tolist()), tuple(some.std(axes).clamp_min(1e-6).tolist())
