"""Fully connected layers."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from torch import nn

from weft.training.options import Mlp


def mlp(inputs: tuple[int, ...], classes: int, options: Mlp) -> nn.Module:
    """Hidden layers with ReLU, and a linear one."""
    layers: list[nn.Module] = [nn.Flatten()]
    widths = [prod(inputs), *options.hidden]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
        if options.dropout:
            layers.append(nn.Dropout(options.dropout))
    return nn.Sequential(*layers, nn.Linear(widths[-1], classes))
