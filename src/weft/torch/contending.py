"""What averages take on this cluster, alone and beside others: the communication model, from measurements."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.distributed as dist

from weft.overlap import CommunicationModel, Sample, fitted
from weft.runtime.turns import slowest, timed
from weft.torch.flights import Flight

SIZES = (8_192, 65_536, 524_288, 4_194_304)
TOGETHER = (1, 2, 4, 8)
MOST_BYTES = 8_388_608
"""on their way at once: beyond it nothing new is learnt"""
TURNS, LEAST_TURNS = 5, 2

Launch = Callable[[torch.Tensor], Flight]


def measured_model(
    launch: Launch, group: dist.ProcessGroup | None, device: torch.device, seconds: float = 6.0
) -> CommunicationModel:
    """The model of averages that are launched so, measured in about so many seconds. Called by all ranks together."""
    return fitted(samples(launch, group, device, seconds))


def samples(launch: Launch, group: dist.ProcessGroup | None, device: torch.device, seconds: float) -> list[Sample]:
    """Averages of zeros, so many at once: the median of some turns each.

    Every size and number has at least two turns, but a size is left out when those before it have used up the time and every
    number has two sizes.
    """
    found = []
    begun = time.monotonic()
    share = seconds / len(SIZES)
    for number, nbytes in enumerate(SIZES):
        for together in TOGETHER:
            if together * nbytes > MOST_BYTES:
                continue
            taken = [_turn(launch, nbytes, together, group, device) for _ in range(LEAST_TURNS)][1:]
            while len(taken) < TURNS and sum(taken) < share / len(TOGETHER):
                taken.append(_turn(launch, nbytes, together, group, device))
            found.append(Sample(nbytes, together, median(taken)))
        if number and slowest([time.monotonic() - begun], group)[0] > seconds:
            break
    return found


def _turn(launch: Launch, nbytes: int, together: int, group: dist.ProcessGroup | None, device: torch.device) -> float:
    tensors = [torch.zeros(nbytes // 4, device=device) for _ in range(together)]
    return slowest([timed(partial(_averaged, launch, tensors), group)], group)[0]


def _averaged(launch: Launch, tensors: list[torch.Tensor]) -> None:
    for flight in [launch(tensor) for tensor in tensors]:
        flight.wait()
