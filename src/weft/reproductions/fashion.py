"""Fashion-MNIST, which reproductions train on: where it is, and the model."""

from __future__ import annotations

from pathlib import Path

from weft.errors import InputError

CNN = """
[model]
name = "cnn"
width = 8
hidden = 64
[data]
name = "fashion-mnist"
folder = "{folder}"
[training]
epochs = {epochs}
seed = {seed}
device = "cpu"
"""
"""The beginning of a training file; ``batch`` follows."""


def folder_of_data() -> Path | None:
    """None if it is not on this machine."""
    from weft.training.options import FASHION_MNIST_FOLDER

    folder = Path(FASHION_MNIST_FOLDER)
    return folder if folder.is_dir() else None


def checked_folder(given: Path | None, seeds: int) -> Path:
    """The folder to train on; what was asked for must be possible."""
    if seeds < 1:
        raise InputError(f"{seeds} seeds are not possible: it must be at least 1")
    folder = given or folder_of_data()
    if folder is None:
        raise InputError(
            "--train needs Fashion-MNIST: install Debian's package dataset-fashion-mnist, or name a folder with its files"
        )
    return folder
