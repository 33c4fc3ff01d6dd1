"""Turns: pieces of work that all ranks do together, and how long they take. A turn takes as long as its slowest rank.

All ranks get the same seconds, so whatever they decide by them they decide alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from weft.runtime import together


def timed(work: Callable[[], object], group: dist.ProcessGroup | None = None) -> float:
    """The seconds that work takes here, begun by all ranks at the same time."""
    together.barrier(group)
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def slowest(seconds: Sequence[float], group: dist.ProcessGroup | None = None) -> list[float]:
    """Of each number the largest among the ranks, on all of them."""
    found = torch.tensor(seconds, dtype=torch.float64)
    together.all_reduce(found, dist.ReduceOp.MAX, group)
    most: list[float] = found.tolist()
    return most
