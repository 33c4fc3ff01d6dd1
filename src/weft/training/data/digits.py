"""scikit-learn's digits, which come with it: 1,797 images of 8 x 8."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from weft.errors import InputError
from weft.training.data.split import Data, Split
from weft.training.options import Digits

ORDER = 1797
"""The seed of the division into training and test: the same in every run, whatever the run's own seed."""


def digits(options: Digits, _: Callable[[str], Path]) -> Data:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InputError("data.name: digits need scikit-learn; install it with pip install 'weft[train]'") from error
    images, targets = load_digits(return_X_y=True)
    order = np.random.default_rng(ORDER).permutation(len(images))
    inputs = torch.from_numpy(images[order].astype(np.float32) / 8 - 1).view(-1, 1, 8, 8)
    classes = torch.from_numpy(targets[order].astype(np.int64))
    tested = max(1, round(options.test_share * len(inputs)))
    return Data(Split(inputs[tested:], classes[tested:]), Split(inputs[:tested], classes[:tested]), 10)
