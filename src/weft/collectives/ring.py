"""Ring: every worker sends to its right-hand neighbour, N - 1 times to reduce and N - 1 times to gather.

Bandwidth-optimal among equals: every worker sends 2(N - 1)/N of the tensor. The chain of dependent steps is as long as
it can be, 2(N - 1). Across a region's uplink it sends the least, once around, if the ring visits one region after the
other: that is what ``ring_ordered`` is for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.network import Network
from weft.schedule import COPY, REDUCE, Schedule


def ring(network: Network) -> Schedule:
    """The ring in rank order, as the usual libraries build it."""
    return ring_through(len(network.workers), network.active, "ring")


def ring_ordered(network: Network) -> Schedule:
    """The ring that finishes one region before it enters the next."""
    return ring_through(len(network.workers), network.region_tree.in_order(), "ring_ordered")


def ring_through(workers: int, order: Sequence[int], name: str) -> Schedule:
    """The ring that visits these ranks in this order."""
    n = len(order)
    ranks = np.array(order, dtype=np.int32)
    step, place = np.divmod(np.arange(2 * (n - 1) * n), n)
    return Schedule.of(
        workers,
        n,
        source=ranks[place],
        destination=ranks[(place + 1) % n],
        chunk=(place - step) % n,
        op=np.where(step < n - 1, REDUCE, COPY),
        participants=sorted(order),
        name=name,
    )
