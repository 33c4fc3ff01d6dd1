"""Workers and parameter servers that wait for nobody: how long each worker takes to push its gradients and pull parameters."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from weft.errors import InputError
from weft.network import Network
from weft.planning.costs import Costs
from weft.schedule import COPY, Schedule
from weft.simulation import Conditions, simulate


def serving_seconds(
    network: Network,
    nbytes: float,
    servers: int | None = None,
    conditions: Conditions | None = None,
    costs: Costs | None = None,
) -> dict[int, float]:
    """For every worker, if all push and pull at once, each as soon as it can. Servers are workers, by default all of them.

    Workers that wait for nobody drift apart and meet others at other moments; that all are always there at once is the usual
    case when sending takes longer than computing, and otherwise the worst.
    """
    active = network.active
    count = len(active) if servers is None else servers
    if not 1 <= count <= len(active):
        raise InputError(f"{count} servers are not possible: there must be 1 to {len(active)}, as servers are workers")
    places = [active[i * len(active) // count] for i in range(count)]
    pairs = [(rank, place) for rank in active for place in places if rank != place]
    if not pairs:
        return dict.fromkeys(active, 0.0)
    pushes = np.array(pairs, dtype=np.int32)
    chunk = np.arange(len(pairs))
    # The answer is the same chunk: it leaves the server when the push has arrived there.
    schedule = Schedule.of(
        len(network.workers), len(pairs), np.concatenate([pushes[:, 0], pushes[:, 1]]),
        np.concatenate([pushes[:, 1], pushes[:, 0]]), np.concatenate([chunk, chunk]), np.full(2 * len(pairs), COPY),
        name="push_and_pull",
    )  # fmt: skip
    total = nbytes / count * len(pairs)
    found = simulate(schedule, network, total, conditions, **asdict(costs or Costs()))
    last = np.zeros(len(network.workers))
    np.maximum.at(last, pushes[:, 0], found.ended[len(pairs) :])
    return {rank: float(last[rank]) for rank in active}
