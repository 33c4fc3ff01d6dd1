"""CIFAR-10's binary version: files of records of one byte for the class and 3,072 for the image.

The Python version holds pickles, which can run any code when they are read, so it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from weft.errors import InputError
from weft.training.data.split import Data, Split, statistics
from weft.training.options import Cifar10

TRAINING = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = ("test_batch.bin",)
RECORD = 1 + 3 * 32 * 32


def cifar10(options: Cifar10, beside: Callable[[str], Path]) -> Data:
    folder = beside(options.folder)
    missing = [name for name in TRAINING + TEST if not (folder / name).is_file()]
    if missing:
        what = f"the folder {folder} lacks {', '.join(missing)}" if folder.is_dir() else f"there is no folder {folder}"
        pickles = (
            "; data_batch_1 is of the Python version, whose pickles are not read"
            if (folder / "data_batch_1").is_file()
            else ""
        )
        raise InputError(
            f"data.folder: {what}; it must hold data_batch_1.bin to data_batch_5.bin and test_batch.bin of CIFAR-10's "
            f"binary version (cifar-10-binary.tar.gz){pickles}"
        )
    train = _split(folder, TRAINING)
    mean, deviation = statistics(train.inputs)
    return Data(train, _split(folder, TEST), 10, mean, deviation, options.augment)


def _split(folder: Path, names: tuple[str, ...]) -> Split:
    parts = []
    for name in names:
        data = np.fromfile(folder / name, np.uint8)
        if len(data) == 0 or len(data) % RECORD:
            raise InputError(f"{folder / name} has {len(data)} bytes, which is no multiple of {RECORD}: copy it again")
        parts.append(data.reshape(-1, RECORD))
    records = torch.from_numpy(np.concatenate(parts))
    return Split(records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].clone())
