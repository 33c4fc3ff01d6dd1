"""A small convolutional network, for 1 x 8 x 8, 1 x 28 x 28 and 3 x 32 x 32 alike."""

from __future__ import annotations

from torch import nn

from weft.training.models.shapes import image
from weft.training.options import Cnn


def cnn(inputs: tuple[int, ...], classes: int, options: Cnn) -> nn.Module:
    """Three convolutions of growing width, halved twice, then a hidden layer."""
    channels, height, width = image("cnn", inputs, 4)
    w = options.width
    return nn.Sequential(
        nn.Conv2d(channels, w, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(w, 2 * w, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(2 * w, 4 * w, 3, padding=1), nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * w * (height // 4) * (width // 4), options.hidden), nn.ReLU(), nn.Dropout(options.dropout),
        nn.Linear(options.hidden, classes),
    )  # fmt: skip
