"""Butterfly (recursive doubling): everybody exchanges the whole tensor with partners 1, 2, 4, ... apart.

The fewest steps of all, log2(N), for the most bytes: good for small tensors alone. Where the number of workers is not
a power of two, those beyond it first hand their tensor to a partner and get the result from it at the end.
"""

from __future__ import annotations

from weft.network import Network
from weft.schedule import Schedule, Transfer


def butterfly(network: Network) -> Schedule:
    """log2(N) dependent steps; two more beyond powers of two."""
    active = network.active
    power = 1 << (len(active).bit_length() - 1)
    beyond = list(zip(active[power:], active, strict=False))
    transfers = [Transfer(late, early, 0, "reduce") for late, early in beyond]
    distance = 1
    while distance < power:
        for i in range(power):
            if not i & distance:
                one, other = active[i], active[i ^ distance]
                # Neighbouring lines: an exchange, in which both send what they held before.
                transfers += [Transfer(one, other, 0, "reduce"), Transfer(other, one, 0, "reduce")]
        distance *= 2
    transfers += [Transfer(early, late, 0, "copy") for late, early in beyond]
    return Schedule.of_transfers(len(network.workers), 1, transfers, active, "butterfly")
