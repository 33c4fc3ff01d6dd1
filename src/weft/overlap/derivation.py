"""A communication model derived from a network: all-reduces of a schedule, alone and at once, simulated flow by flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from weft.errors import InputError
from weft.network import Network
from weft.overlap.communication import MOST_TOGETHER, CommunicationModel, Sample
from weft.overlap.fitting import fitted
from weft.planning.costs import Costs
from weft.schedule import Schedule
from weft.simulation import simulate

SIZES = tuple(8_000 * 2**n for n in range(10))
"""8 KB to 4 MB, where the papers fit."""


def model_of_network(
    schedule: Schedule,
    network: Network,
    sizes: Sequence[float] = SIZES,
    together: int = MOST_TOGETHER,
    costs: Costs | None = None,
) -> CommunicationModel:
    """The model of a schedule on a network, for up to so many operations at once; its errors say how well lines fit."""
    return fitted(samples_of_network(schedule, network, sizes, range(1, together + 1), costs))


def samples_of_network(
    schedule: Schedule, network: Network, sizes: Sequence[float], counts: Sequence[int], costs: Costs | None = None
) -> list[Sample]:
    """What simulations say for every size and every number at once."""
    extras = asdict(costs or Costs())
    return [
        Sample(nbytes, count, simulate(at_once(schedule, count), network, count * nbytes, **extras).seconds)
        for count in counts
        for nbytes in sizes
    ]


def at_once(schedule: Schedule, count: int) -> Schedule:
    """So many all-reduces side by side as one schedule, each of its own part of a tensor; channels take turns between them."""
    if count < 1:
        raise InputError(f"{count} operations at once are not possible: it must be at least 1")
    which = np.repeat(np.arange(len(schedule)), count)
    copy = np.tile(np.arange(count, dtype=np.int32), len(schedule))
    # The two sides of an exchange stay neighbours.
    order = np.lexsort((which, copy, which - schedule.exchanges[which]))
    which, copy = which[order], copy[order]
    return Schedule.of(
        schedule.workers, np.tile(schedule.chunk_weights, count), schedule.source[which], schedule.destination[which],
        copy * len(schedule.chunk_weights) + schedule.chunk[which], schedule.op[which], schedule.span[which],
        schedule.participants, schedule.name,
    )  # fmt: skip
