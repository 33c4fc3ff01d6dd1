"""scikit-learn's digits, which come with it: 1,797 images of 8 x 8."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from weft.errors import InputError
from weft.training.data.split import Data, Split
from weft.training.options import Digits

ORDER = 1797
"""The seed of the division into training and test: the same in every run, whatever the run's own seed."""


def digits(options: Digits, _: Callable[[str], Path]) -> Data:
    images, targets = _from_scikit_learn()
    order = np.random.default_rng(ORDER).permutation(len(images))
    inputs = torch.from_numpy(images[order].astype(np.float32) / 8 - 1).view(-1, 1, 8, 8)
    classes = torch.from_numpy(targets[order].astype(np.int64))
    tested = max(1, round(options.test_share * len(inputs)))
    return Data(Split(inputs[tested:], classes[tested:]), Split(inputs[:tested], classes[:tested]), 10)


def _from_scikit_learn() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Images and classes. Read from scikit-learn's file: importing all of it takes each worker longer than training."""
    found = find_spec("sklearn")
    if found is None:
        raise InputError("data.name: digits need scikit-learn; install it with pip install 'weft[train]'")
    file = Path(*(found.submodule_search_locations or [])[:1], "datasets", "data", "digits.csv.gz")
    if file.is_file():
        with gzip.open(file) as text:
            table = np.loadtxt(text, delimiter=",")
        return table[:, :-1], table[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits

    images, targets = load_digits(return_X_y=True)
    return images, targets
