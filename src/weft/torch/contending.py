"""What averages take on this cluster, alone and beside others: the communication model, from measurements."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

import torch
import torch.distributed as dist

from weft.overlap import CommunicationModel, Sample, fitted
from weft.runtime.together import barrier
from weft.runtime.turns import slowest, timed
from weft.torch.flights import Flight

SIZES = (8_192, 65_536, 524_288, 4_194_304)
TOGETHER = (1, 2, 4, 8)
MOST_BYTES = 8_388_608
"""on their way at once: beyond it nothing new is learnt"""
TURNS, LEAST_TURNS = 5, 2
TURNS_BESIDE = 15
"""of computing beside an average: where the worst of many ranks counts, a few turns make it look worse than it is"""
LONG = 1.0
"""seconds: an average that takes more is not needed to see what it does to computing"""
PIECE = 128
"""rows and columns of a piece of computing, which takes a fraction of a millisecond"""
LEAST_PACE = 0.05

Launch = Callable[[torch.Tensor], Flight]


def measured_model(
    launch: Launch, group: dist.ProcessGroup | None, device: torch.device, seconds: float = 6.0
) -> CommunicationModel:
    """The model of averages that are launched so, measured in about so many seconds. Called by all ranks together."""
    found = fitted(samples(launch, group, device, seconds))
    if device.type != "cpu":
        return found  # what computes there does not serve the network
    nbytes = max((size for size in SIZES if found.seconds(size) < LONG), default=SIZES[0])
    pace, drag = beside_computing(launch, group, nbytes)
    return replace(found, pace=pace, drag=drag)


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


def beside_computing(launch: Launch, group: dist.ProcessGroup | None, nbytes: int) -> tuple[float, float]:
    """What part of its speed computing has while an average is on its way, and how many times as long that then takes.

    The median of some turns each, on the rank that suffers most: one that is late in one turn is early in the next. All ranks
    compute at once, in both cases.
    """
    tensor = torch.zeros(nbytes // 4)
    paces, drags = [], []
    for _ in range(TURNS_BESIDE):
        alone = slowest([timed(partial(_averaged, launch, [tensor]), group)], group)[0]
        barrier(group)
        quiet = _pieces_a_second(partial(_lasts, time.monotonic() + alone))
        barrier(group)
        flight = launch(tensor)
        busy = _pieces_a_second(partial(_is_flying, flight))
        flight.wait()
        paces.append(busy / quiet)
        drags.append((flight.ended - flight.begun) / alone)
    slow, drag = slowest([-median(paces), median(drags)], group)
    return min(1.0, max(LEAST_PACE, -slow)), max(1.0, drag)


def _lasts(until: float) -> bool:
    return time.monotonic() < until


def _is_flying(flight: Flight) -> bool:
    return not flight.ended


def _pieces_a_second(goes_on: Callable[[], bool]) -> float:
    """How many small pieces of work this thread computes in a second, as long as something goes on."""
    one, other = torch.ones(PIECE, PIECE), torch.ones(PIECE, PIECE)
    begun, done = time.perf_counter(), 0
    while goes_on() or not done:
        torch.mm(one, other)
        done += 1
    return done / (time.perf_counter() - begun)


def _turn(launch: Launch, nbytes: int, together: int, group: dist.ProcessGroup | None, device: torch.device) -> float:
    tensors = [torch.zeros(nbytes // 4, device=device) for _ in range(together)]
    return slowest([timed(partial(_averaged, launch, tensors), group)], group)[0]


def _averaged(launch: Launch, tensors: list[torch.Tensor]) -> None:
    for flight in [launch(tensor) for tensor in tensors]:
        flight.wait()
