"""Models by name. Each is made from the shape of one input, the number of classes, and its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from weft.training.models.convolutions import cnn
from weft.training.models.mlp import mlp
from weft.training.models.recurrent import lstm
from weft.training.models.residual import resnet20
from weft.training.models.transformer import transformer
from weft.training.models.vgg import vgg16

Builder = Callable[[tuple[int, ...], int, Any], nn.Module]

BUILDERS: dict[str, Builder] = {
    "mlp": mlp,
    "cnn": cnn,
    "vgg-16": vgg16,
    "resnet-20": resnet20,
    "lstm": lstm,
    "transformer": transformer,
}

__all__ = ["BUILDERS", "Builder"]
