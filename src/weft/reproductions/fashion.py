"""Where Fashion-MNIST is, which reproductions train on."""

from __future__ import annotations

from pathlib import Path

from weft.errors import InputError


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
