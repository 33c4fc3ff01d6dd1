"""One model for many workers that hold the same: their gradients are computed one after the other, and reduced in memory.

For studies of what a way to reduce gradients does to accuracy: sparse methods run by the same code as on a network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

import torch
from torch import nn

from weft.sparse import Compression, ErrorFeedback, converse
from weft.training.batches import Batches
from weft.training.config import Config
from weft.training.joining import Place
from weft.training.judging import judged
from weft.training.preparation import prepared
from weft.training.rates import learning_rate, optimizer_of, set_rate
from weft.training.sampler import Sampler

Rows = list[torch.Tensor]
"""every worker's gradient, flat"""
Reduce = Callable[[Rows], torch.Tensor]
"""the mean of the rows, or what comes instead of it"""


def dense_mean(rows: Rows) -> torch.Tensor:
    """What dense synchronization gives."""
    return torch.stack(rows).mean(0)


def sparse_mean(compression: Compression, workers: int) -> Reduce:
    """What a sparse method gives, with what it keeps from call to call."""
    feedbacks = [ErrorFeedback(compression, rank, workers) for rank in range(workers)]

    def reduced(rows: Rows) -> torch.Tensor:
        talk = converse([f.part(row.numpy()) for f, row in zip(feedbacks, rows, strict=True)])
        return torch.from_numpy(talk.results[0].dense(len(rows[0])))

    return reduced


def trained(
    config: Config, workers: int, reduce: Callable[[Sequence[torch.Size]], Reduce]
) -> Iterator[tuple[float, float]]:
    """Accuracy in percent and mean loss, after every epoch. ``reduce`` is made for the shapes of the parameters."""
    place, epochs = Place(0, workers, torch.device("cpu")), config.training.epochs
    data, model = prepared(config, place)
    sampler = Sampler(len(data.train), config.training.batch, workers, config.training.seed)
    batches = Batches(data, sampler, config.training, place.device)
    stepping = optimizer_of(config.optimizer, model.parameters())
    reduced = reduce([parameter.shape for parameter in model.parameters()])
    for epoch in range(epochs):
        losses = []
        model.train()
        for step in range(epoch * sampler.epoch_steps, (epoch + 1) * sampler.epoch_steps):
            set_rate(stepping, learning_rate(config.optimizer, batches.share(step, epochs), step))
            rows, loss = _gradients(model, batches, step, workers)
            _give(model, reduced(rows))
            stepping.step()
            losses.append(loss)
        yield round(100 * judged(model, data, place.device)[1], 2), round(fmean(losses), 5)


def _gradients(model: nn.Module, batches: Batches, step: int, workers: int) -> tuple[Rows, float]:
    """Of every worker, and the mean loss."""
    rows, losses = [], []
    for worker in range(workers):
        model.zero_grad()
        losses.append(batches.backward(model, step, worker))
        rows.append(torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]))
    return rows, fmean(losses)


def _give(model: nn.Module, flat: torch.Tensor) -> None:
    at = 0
    for parameter in model.parameters():
        parameter.grad = flat[at : at + parameter.numel()].view_as(parameter).clone()
        at += parameter.numel()
