"""ResNet-20 for CIFAR (He et al. 2015, section 4.2): 269,722 parameters with 10 classes and 3 channels; deeper ones, too.

Shortcuts have no parameters: where the size halves and the width doubles, every second pixel is taken and zeros fill the new
channels (option A of the paper).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from weft.training.models.shapes import image
from weft.training.options import Resnet20


class Residual(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, width, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)
        self.stride, self.more = stride, width - before

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inside = functional.relu(self.first_norm(self.first(x)))
        inside = self.second_norm(self.second(inside))
        around = x[:, :, :: self.stride, :: self.stride]
        if self.more:
            around = functional.pad(around, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))
        return functional.relu(inside + around)


def resnet20(inputs: tuple[int, ...], classes: int, options: Resnet20) -> nn.Module:
    """Three stages of as many blocks each, two layers a block, and an average."""
    channels, _, _ = image("resnet-20", inputs, 8)
    width = options.width
    layers: list[nn.Module] = [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    before = width
    for stage in range(3):
        for block in range(options.blocks):
            after = width << stage
            layers.append(Residual(before, after, 2 if stage and not block else 1))
            before = after
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return model
