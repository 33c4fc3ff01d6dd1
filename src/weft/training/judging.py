"""How good one model is, without other workers; and the model that comes of all replicas.

Where workers only average parameters with some others, each has another model. What is judged is their mean: of the parameters,
or of the exponential averages where the strategy keeps them. Running statistics of batch normalization are the mean over
workers in the first case; for the mean of averages they are computed anew from training examples, because no worker has ever
run that model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from weft.training.data import Data
from weft.training.evaluation import loss_of
from weft.training.replicas import Replicas, load_row

BATCH = 512
STATISTICS_EXAMPLES = 8192
"""training examples from which statistics are computed anew, at most"""


@dataclass(frozen=True, slots=True)
class Judge:
    """A spare model into which parameters are put to be tested."""

    model: nn.Module
    data: Data
    device: torch.device

    def of_replicas(self, replicas: Replicas) -> tuple[float, float]:
        """Loss and accuracy of the mean of all workers."""
        if replicas.averages is None:
            return self.of_row(replicas.table.data.mean(dim=0), replicas.modules)
        load_row(self.model, replicas.averages.mean(dim=0))
        renew_statistics(self.model, self.data, self.device)
        return judged(self.model, self.data, self.device)

    def of_row(self, row: torch.Tensor, modules: list[nn.Module]) -> tuple[float, float]:
        """Loss and accuracy of these parameters, with the mean of the modules' statistics."""
        load_row(self.model, row)
        with torch.no_grad():
            for own, *others in zip(self.model.buffers(), *(module.buffers() for module in modules), strict=True):
                if own.is_floating_point():
                    own.copy_(torch.stack(others).mean(dim=0))
        return judged(self.model, self.data, self.device)


@torch.no_grad()
def judged(model: nn.Module, data: Data, device: torch.device) -> tuple[float, float]:
    """Loss and accuracy on all test examples."""
    model.eval()
    loss = right = count = 0.0
    for indices in torch.split(torch.arange(len(data.test)), BATCH):
        inputs, targets = data.batch(data.test, indices, device)
        scores = model(inputs)
        loss += float(loss_of(scores, targets)) * targets.numel()
        right += float((scores.argmax(-1) == targets).sum())
        count += targets.numel()
    return loss / count, right / count


@torch.no_grad()
def renew_statistics(model: nn.Module, data: Data, device: torch.device) -> None:
    """Compute the running statistics of batch normalization anew: plain means over batches of training examples."""
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    model.eval()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
        layer.train()
    for indices in torch.split(torch.arange(min(len(data.train), STATISTICS_EXAMPLES)), BATCH):
        model(data.batch(data.train, indices, device)[0])
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
        layer.eval()
