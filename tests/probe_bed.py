"""What streams reach on networks of racks: fair sharing by the reference, and all that disturbs it."""

from __future__ import annotations

import numpy as np

from reference import fair_rates
from weft.network import Network
from weft.probing.rounds import NOBODY, Round


class Bed:
    """Streams on a network: unequal shares (``unfair``), noise, and now and then something that slows one down (``glitches``)."""

    def __init__(
        self, network: Network, seed: int, noise: float = 0.05, unfair: float = 0.5, glitches: float = 0.08
    ) -> None:
        self.network, self.noise, self.unfair, self.glitches = network, noise, unfair, glitches
        self.random = np.random.default_rng(seed)
        self.rounds = 0

    def measure(self, one: Round) -> list[float]:
        self.rounds += 1
        flows = {}
        for source, to in enumerate(one.destinations):
            if to != NOBODY:
                links = self.network.routes([source], [to]).links.tolist()
                flows[source] = ([(link, 1.0) for link in links], float(np.exp(self.random.normal(0, self.unfair))))
        rates = fair_rates(flows, [link.bandwidth for link in self.network.links])
        seen = [0.0] * len(one.destinations)
        for source, rate in rates.items():
            slowed = self.random.uniform(0.2, 0.9) if self.random.random() < self.glitches else 1.0
            seen[source] = rate * slowed * float(np.exp(self.random.normal(0, self.noise)))
        return seen
