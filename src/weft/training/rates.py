"""The optimizer, and the learning rate as a function of how far the training is: nothing of it has to be saved."""

from __future__ import annotations

from collections.abc import Iterable
from math import cos, pi

import torch

from weft.training.options import Optimizer


def optimizer_of(options: Optimizer, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    rate, decay = options.learning_rate, options.weight_decay
    if options.name == "sgd":
        return torch.optim.SGD(parameters, rate, momentum=options.momentum, weight_decay=decay)
    kind = torch.optim.Adam if options.name == "adam" else torch.optim.AdamW
    return kind(parameters, rate, weight_decay=decay)


def learning_rate(options: Optimizer, share: float, step: int) -> float:
    """Of the step that follows, when this share of the training and so many steps are done."""
    rate = options.learning_rate
    if options.schedule == "cosine":
        rate *= (1 + cos(pi * share)) / 2
    elif options.schedule == "steps":
        rate *= options.factor ** sum(share >= milestone for milestone in options.milestones)
    return rate * min(1.0, (step + 1) / (options.warmup_steps + 1))


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
