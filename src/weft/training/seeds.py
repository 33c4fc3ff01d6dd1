"""Seeds that follow from numbers: the same numbers give the same seed, and different ones give unrelated seeds."""

from __future__ import annotations

import random

import numpy as np
import torch

ORDER, AUGMENTATION, RANK = 1, 2, 3
"""What a seed is for, as its first number."""


def derived(purpose: int, *numbers: int) -> int:
    """A seed of 63 bits."""
    return int(np.random.SeedSequence((purpose, *numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def seed_everything(seed: int) -> None:
    """Start the random numbers of torch, numpy and Python anew."""
    torch.manual_seed(seed)
    np.random.seed(seed % (1 << 32))
    random.seed(seed)
