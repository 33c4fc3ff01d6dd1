"""Halves: a schedule as two, of which the first only reduces and the second only copies.

After the first half every chunk is complete at one rank or more; nobody else needs to know yet. The second half may come later,
and in another order among tensors: what is needed first is copied first. DeAR (Zhang et al. 2023) does so with rings: gradients
are reduced during the backward pass, and gathered during the next forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from weft.errors import ProofError
from weft.proof import verify
from weft.schedule import COPY, Schedule


@dataclass(frozen=True, slots=True)
class Half:
    """A part of a schedule that has been proved as a whole, and may therefore be executed."""

    schedule: Schedule
    name: str


@lru_cache(maxsize=64)
def halves(schedule: Schedule) -> tuple[Half, Half] | None:
    """The two halves; None if a reduction depends on a copy, or if there is nothing to copy.

    What is proved is one half after the other, in this very order.
    """
    copies = schedule.op == COPY
    if not copies.any():
        return None
    order = np.concatenate([np.flatnonzero(~copies), np.flatnonzero(copies)])
    try:
        verify(_taken(schedule, order, schedule.name))
    except ProofError:
        return None
    first, second = (_taken(schedule, np.flatnonzero(which), schedule.name) for which in (~copies, copies))
    return Half(first, f"first half of {schedule.name}"), Half(second, f"second half of {schedule.name}")


def _taken(schedule: Schedule, which: np.ndarray[tuple[int], np.dtype[np.intp]], name: str) -> Schedule:
    return replace(
        schedule,
        source=schedule.source[which].copy(), destination=schedule.destination[which].copy(),
        chunk=schedule.chunk[which].copy(), op=schedule.op[which].copy(), span=schedule.span[which].copy(), name=name,
    )  # fmt: skip
