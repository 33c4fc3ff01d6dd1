"""K-nomial tree: write the workers' numbers in base k; the parent of a number has its lowest digit that is not 0 cleared."""

from __future__ import annotations

import numpy as np

from weft.collectives.trees import ABSENT, ROOT, equal_weights, tree_schedule
from weft.errors import InputError
from weft.network import Network
from weft.schedule import Schedule


def k_nomial(network: Network, k: int = 2) -> Schedule:
    """One tree for the whole tensor, log_k(N) deep. Cut it into segments to pipeline it."""
    if k < 2:
        raise InputError(f"a {k}-nomial tree is not possible: k must be at least 2")
    active = network.active
    parents = np.full((1, len(network.workers)), ABSENT, dtype=np.int32)
    for i, rank in enumerate(active):
        parents[0, rank] = ROOT if i == 0 else active[_parent(i, k)]
    return tree_schedule(parents, equal_weights(1), active, "k_nomial")


def _parent(number: int, k: int) -> int:
    digit = 1
    while number // digit % k == 0:
        digit *= k
    return number - number // digit % k * digit
