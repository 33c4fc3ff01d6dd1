"""How many teams SparDL should make on a network: by Table 1's formulas, from the network's alpha and beta."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.network import Network
from weft.sparse.costs import Cost, spardl_cost
from weft.units import format_seconds

BYTES_PER_NUMBER = 2.6
"""An index and a value take about 5.1 bytes at a density of 1%: see ``index_coding``."""


@dataclass(frozen=True, slots=True)
class AlphaBeta:
    """What starting a message takes, and what a number in it takes, in seconds."""

    alpha: float
    beta: float


@dataclass(frozen=True, slots=True)
class TeamChoice:
    """So many teams, what each possible number would take, and why this one."""

    teams: int
    seconds: dict[int, float]
    reason: str


def alpha_beta(network: Network, message_seconds: float = 0.0) -> AlphaBeta:
    """Those of a network: the longest latency between two workers, and the rate of a shift in which all workers send at once.

    Every worker sends to the one half of the workers away, as in the first and longest round: what the slowest link has then
    for one of them decides.
    """
    workers = len(network.workers)
    if workers < 2:
        return AlphaBeta(message_seconds, 0.0)
    source = np.arange(workers, dtype=np.int32)
    routes = network.routes(source, (source + (workers + 1) // 2) % workers)
    load = np.bincount(routes.links, weights=routes.share, minlength=len(network.links))
    busiest = float(np.max(load / network.graph.bandwidth))
    return AlphaBeta(float(routes.latency.max()) + message_seconds, BYTES_PER_NUMBER * busiest)


def team_choice(workers: int, k: float, cost: AlphaBeta) -> TeamChoice:
    """The number of teams with the least predicted time; of equal ones the smallest."""
    costs = {d: spardl_cost(workers, k, d) for d in range(1, workers + 1) if workers % d == 0}
    seconds = {d: found.seconds(cost.alpha, cost.beta) for d, found in costs.items()}
    best = min(seconds, key=lambda d: (seconds[d], d))
    return TeamChoice(best, seconds, _reason(best, costs, seconds, cost))


def _reason(best: int, costs: dict[int, Cost], seconds: dict[int, float], cost: AlphaBeta) -> str:
    found = costs[best]
    middle = (found.least + found.most) / 2
    others = ", ".join(f"{d}: {format_seconds(taken)}" for d, taken in seconds.items() if d != best)
    return (
        f"{best} {'team' if best == 1 else 'teams'}: {found.rounds:g} rounds of {format_seconds(cost.alpha)} and "
        f"{middle:,.0f} numbers of {cost.beta * 1e9:.3g} ns take {format_seconds(seconds[best])}"
        + (f"; others would take: {others}" if others else "")
    )
