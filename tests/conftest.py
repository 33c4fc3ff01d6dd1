"""What holds for all tests."""

from __future__ import annotations

import signal
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# What is called first may have to be compiled first.
settings.register_profile("compiled", deadline=None)
settings.load_profile("compiled")

# A shell has jobs in the background ignore interruptions, and so would everything that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def fashion(tmp_path: Path) -> Path:
    """As many files as Fashion-MNIST has, small ones: bright images are one class, dark ones the other."""
    from weft.training.data.idx import FILES

    draw = np.random.default_rng(0)
    for number, count in enumerate((600, 600, 60, 60)):
        labels = (np.arange(count) % 2).astype(np.uint8)
        images = np.clip(draw.integers(0, 120, (count, 28, 28)) + 120 * labels[:, None, None], 0, 255).astype(np.uint8)
        array = labels if number % 2 else images
        head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        (tmp_path / FILES[number]).write_bytes(head + array.tobytes())
    return tmp_path
