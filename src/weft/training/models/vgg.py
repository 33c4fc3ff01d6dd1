"""VGG-16 as it is used on CIFAR: thirteen convolutions with batch normalization, and one linear layer.

With 10 classes and 3 channels it has 14,724,042 parameters. The original's three linear layers of 4,096, which hold most of
its 138 million, are for images of 224 x 224.
"""

from __future__ import annotations

from torch import nn

from weft.training.models.shapes import image
from weft.training.options import Vgg16

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""width and number of convolutions; every stage ends at half of the size"""


def vgg16(inputs: tuple[int, ...], classes: int, options: Vgg16) -> nn.Module:
    """The five stages, an average over what is left of the image, and a linear layer."""
    before, _, _ = image("vgg-16", inputs, 32)
    layers: list[nn.Module] = []
    for width, count in STAGES:
        for _ in range(count):
            layers += [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(options.dropout), nn.Linear(before, classes)]
    return nn.Sequential(*layers)
