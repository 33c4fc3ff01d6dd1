"""The cases whose times are compared with SimGrid's: what is sent on which network. They are the same every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from random import Random

from weft import Network, Schedule
from weft.collectives import parameter_server, rat, ring
from weft.network import two_tier

NBYTES = 97_000_000
TEN_GBIT = 10e9 / 8
COLLECTIVES: dict[str, Callable[[Network], Schedule]] = {
    "ring": ring,
    "parameter_server": parameter_server,
    "rat": lambda network: rat(network, weights="equal"),  # no linear program whose solution may vary
}
RACKS = {8: (2, 4), 64: (8, 8)}
"""Racks and workers in each, by the number of workers."""
_SEED = 97


@dataclass(frozen=True)
class Case:
    """A collective on racks that are oversubscribed 4:1."""

    collective: str
    workers: int
    microseconds: int
    """the latency of every link"""
    unequal: bool
    """whether the bandwidth of every link, in each direction on its own, is up to 10 % more or less"""

    @property
    def name(self) -> str:
        return f"{self.collective}-{self.workers}-{self.microseconds}us-{'unequal' if self.unequal else 'equal'}"

    def network(self) -> Network:
        racks, each = RACKS[self.workers]
        even = two_tier(racks, each, bandwidth=TEN_GBIT, oversubscription=4, latency=self.microseconds * 1e-6)
        if not self.unequal:
            return even
        random = Random(_SEED)
        links = [replace(link, bandwidth=link.bandwidth * random.uniform(0.9, 1.1)) for link in even.links]
        return replace(even, links=tuple(links))

    def schedule(self, network: Network) -> Schedule:
        return COLLECTIVES[self.collective](network)


CASES = tuple(Case(*choice) for choice in product(COLLECTIVES, RACKS, (0, 5), (False, True)))
