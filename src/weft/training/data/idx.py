"""IDX files, as MNIST and Fashion-MNIST have them, compressed or not."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np
import torch

from weft.errors import InputError
from weft.training.data.split import Data, Split, statistics
from weft.training.options import FASHION_MNIST_FOLDER, FashionMnist

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_BYTES = 0x08
_MOST_BYTES = 1 << 32


def fashion_mnist(options: FashionMnist, beside: Callable[[str], Path]) -> Data:
    folder = beside(options.folder)
    paths = [_existing(folder, name) for name in FILES]
    missing = [name for name, path in zip(FILES, paths, strict=True) if path is None]
    if missing:
        what = (
            f"the folder {folder} lacks {' and '.join(missing)}" if folder.is_dir() else f"there is no folder {folder}"
        )
        raise InputError(
            f"data.folder: {what}; it must hold Fashion-MNIST's four IDX files, with or without .gz: install Debian's "
            f"package dataset-fashion-mnist, which puts them in {FASHION_MNIST_FOLDER}"
        )
    images, labels, test_images, test_labels = [read_idx(path) for path in paths if path is not None]
    mean, deviation = statistics(images[:, None])
    classes = max(10, int(labels.max()) + 1)
    return Data(Split(images[:, None], labels), Split(test_images[:, None], test_labels), classes, mean, deviation)


def _existing(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def read_idx(path: Path) -> torch.Tensor:
    """The tensor of bytes that an IDX file holds."""
    data = _content(path)
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != _BYTES:
        raise InputError(f"{path} is not an IDX file of bytes: it begins with {data[:4].hex() or 'nothing'}")
    head = 4 + 4 * data[3]
    sizes = [int.from_bytes(data[i : i + 4], "big") for i in range(4, head, 4)]
    if len(data) != head + prod(sizes):
        shape = " x ".join(map(str, sizes))
        raise InputError(f"{path} says it holds {shape} bytes, but has {len(data) - head}: copy it again")
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=head).reshape(sizes).copy())


def _content(path: Path) -> bytes:
    try:
        if path.suffix != ".gz":
            return path.read_bytes()
        with gzip.open(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if len(data) > _MOST_BYTES:
        raise InputError(f"{path} unpacks to more than {_MOST_BYTES} bytes")
    return data
