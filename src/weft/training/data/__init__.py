"""Data by name. Each reader gets its options and a function that finds files relative to the training file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.training.data.cifar import cifar10
from weft.training.data.digits import digits
from weft.training.data.idx import fashion_mnist
from weft.training.data.split import Data, Split
from weft.training.data.synthetic import synthetic_images, synthetic_text

Reader = Callable[[Any, Callable[[str], Path]], Data]

READERS: dict[str, Reader] = {
    "digits": digits,
    "fashion-mnist": fashion_mnist,
    "cifar-10": cifar10,
    "synthetic": synthetic_images,
    "synthetic-text": synthetic_text,
}

__all__ = ["READERS", "Data", "Reader", "Split"]
