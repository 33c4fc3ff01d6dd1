"""Data from a seed, for machines without any: they can be learned, and how well is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from weft.training.data.split import Data, Split
from weft.training.options import SyntheticImages, SyntheticText

LIKELY = (0.7, 0.15, 0.1, 0.05)
"""How likely the successors of a pair of symbols are. No model can guess many more than 70%: two of them may be the same."""
_SEED = 1


def synthetic_images(options: SyntheticImages, _: Callable[[str], Path]) -> Data:
    """Every class is a coarse random pattern; an image is its pattern under noise."""
    random = torch.Generator().manual_seed(_SEED)
    coarse = max(1, options.size // 4)
    patterns = torch.randn(options.classes, options.channels, coarse, coarse, generator=random)
    patterns = functional.interpolate(patterns, size=(options.size, options.size), mode="nearest")

    def split(count: int) -> Split:
        targets = torch.randint(0, options.classes, (count,), generator=random)
        noise = torch.randn(count, *patterns.shape[1:], generator=random)
        return Split(patterns[targets] + options.noise * noise, targets)

    return Data(split(options.train), split(options.test), options.classes)


def synthetic_text(options: SyntheticText, _: Callable[[str], Path]) -> Data:
    """Every pair of symbols has a few successors; the targets are the inputs, one position later."""
    random = np.random.default_rng(_SEED)
    symbols = options.symbols
    successors = random.integers(0, symbols, (symbols, symbols, len(LIKELY)))

    def split(count: int) -> Split:
        text = np.empty((count, options.length + 1), np.int64)
        text[:, :2] = random.integers(0, symbols, (count, 2))
        for i in range(2, options.length + 1):
            choice = random.choice(len(LIKELY), count, p=LIKELY)
            text[:, i] = successors[text[:, i - 2], text[:, i - 1], choice]
        whole = torch.from_numpy(text)
        return Split(whole[:, :-1].contiguous(), whole[:, 1:].contiguous())

    return Data(split(options.train), split(options.test), symbols)
