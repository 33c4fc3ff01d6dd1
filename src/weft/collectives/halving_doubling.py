"""Recursive halving and doubling (Rabenseifner): exchange halves with ever farther partners, then gather back.

Partners are 1, 2, 4, ... apart, and the part that is still being reduced halves every time, so the most is sent to the
nearest. Where the number of workers is not a power of two, those beyond it first hand their tensor to a partner and
get the result from it at the end.
"""

from __future__ import annotations

from weft.network import Network
from weft.schedule import Schedule, Transfer


def halving_doubling(network: Network) -> Schedule:
    """2 log2(N) dependent steps, 2(N - 1)/N of the tensor sent by every worker; two steps more beyond powers of two."""
    active = network.active
    power = 1 << (len(active).bit_length() - 1)
    beyond = list(zip(active[power:], active, strict=False))
    transfers = [Transfer(late, early, 0, "reduce", power) for late, early in beyond]
    first = [0] * power
    size = power
    distance = 1
    gathering: list[list[Transfer]] = []
    while distance < power:
        size //= 2
        reducing, copying = [], []
        for i in range(power):
            partner = i ^ distance
            kept = first[i] + (size if i & distance else 0)
            given = first[i] + (0 if i & distance else size)
            reducing.append(Transfer(active[i], active[partner], given, "reduce", size))
            copying.append(Transfer(active[i], active[partner], kept, "copy", size))
        for i in range(power):
            first[i] += size if i & distance else 0
        transfers += reducing
        gathering.append(copying)
        distance *= 2
    for copying in reversed(gathering):
        transfers += copying
    transfers += [Transfer(early, late, 0, "copy", power) for late, early in beyond]
    return Schedule.of_transfers(len(network.workers), power, transfers, active, "halving_doubling")
