"""How good a model is on the test examples, which the workers share among themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional

from weft.runtime import together
from weft.training.data import Data
from weft.training.exchange import average
from weft.training.joining import Place

BATCH = 256


def loss_of(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean cross entropy, over positions too where every position has a class."""
    return functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))


@contextmanager
def averaged_buffers(model: nn.Module) -> Iterator[None]:
    """Inside, running averages of batch normalization are averages over all workers; afterwards each has its own again."""
    buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
    own = [buffer.clone() for buffer in buffers]
    average(buffers)
    yield
    for buffer, before in zip(buffers, own, strict=True):
        buffer.copy_(before)


@torch.no_grad()
def evaluated(model: nn.Module, data: Data, place: Place) -> tuple[float, float]:
    """Loss and accuracy on all test examples.

    All workers test one model: see ``averaged_buffers``.
    """
    model.eval()
    sums = torch.zeros(3, dtype=torch.float64, device=place.device)
    own = torch.arange(place.rank, len(data.test), place.world)
    with averaged_buffers(model):
        for indices in torch.split(own, BATCH) if len(own) else ():
            inputs, targets = data.batch(data.test, indices, place.device)
            scores = model(inputs)
            count = targets.numel()
            sums[0] += loss_of(scores, targets).double() * count
            sums[1] += (scores.argmax(-1) == targets).sum()
            sums[2] += count
    model.train()
    together.all_reduce(sums)
    loss, right, count = sums.tolist()
    return loss / count, right / count
