"""What a message and an addition cost on these machines, measured by executing: all ranks at once, as in a training step."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from statistics import median

import torch
import torch.distributed as dist

from weft.bounds import bound
from weft.collectives import ring, ring_ordered
from weft.network import Network, full_mesh
from weft.planning import Costs
from weft.runtime.communicator import Communicator
from weft.runtime.turns import slowest, timed
from weft.schedule import Schedule
from weft.simulation import simulate

SEGMENTS = 16
ADDED = 1 << 20
"""Elements of the tensors that are added."""
TURNS = 5
RING_SECONDS, LARGEST_RING, RING_SEGMENTS, RING_TURNS = 0.5, 32_000_000, 4, 4
"""How long the ring that shows the links' efficiency should take, its most bytes, and how often it runs."""
LEAST_EFFICIENCY = 0.5
"""What is slower than that is not a matter of headers: the network is another than the one that is known."""
TCP_UNFAIRNESS = 0.3
"""How unevenly connections of TCP share; not measured but chosen. With it a simulated all-to-all of 8 hosts reaches 68% of its
fluid rate; 69% to 85% were measured on emulated racks (``benchmarks/incast.py``)."""


def measured_costs(
    communicator: Communicator, group: dist.ProcessGroup | None = None, network: Network | None = None
) -> Costs:
    """The costs on the slowest rank; every rank gets the same. Takes about a second, and three more with a network.

    A ring of tiny segments has nearly nothing to carry, so what it takes is its messages, one after the other on every channel.
    In a ring without segments every message besides waits until the one before it has been noticed. If the network is known, a
    ring that follows it and has much to carry shows what part of the links' rates is left for data.
    """
    ranks = communicator.transport.size
    if ranks == 1:
        return Costs()
    whole = ring(full_mesh(ranks))
    steps = 2 * (ranks - 1)
    tiny = torch.zeros(ranks * SEGMENTS)
    found = [
        _seconds(communicator, whole.segmented(SEGMENTS), tiny, group) / (SEGMENTS * steps),
        _seconds(communicator, whole, tiny, group) / steps,
        _add_seconds(),
    ]
    message, step, adding = slowest(found, group)
    costs = Costs(message, adding, max(0.0, step - message), TCP_UNFAIRNESS)
    return costs if network is None else replace(costs, efficiency=_efficiency(communicator, network, costs, group))


def _efficiency(communicator: Communicator, network: Network, costs: Costs, group: dist.ProcessGroup | None) -> float:
    """How long a ring should take by everything else that is known, as a part of what it takes at best.

    At best, because that is a property of the links; what slows single turns down is not.
    """
    nbytes = int(min(LARGEST_RING, RING_SECONDS / bound(network, 1e6, latency=False).seconds * 1e6))
    schedule = ring_ordered(network).sliced(RING_SEGMENTS)
    expected = simulate(schedule, network, nbytes, **asdict(costs)).seconds
    taken = slowest(_turns(communicator, schedule, torch.zeros(nbytes // 4), group, RING_TURNS), group)
    return min(1.0, max(LEAST_EFFICIENCY, expected / min(taken)))


def _seconds(
    communicator: Communicator, schedule: Schedule, tensor: torch.Tensor, group: dist.ProcessGroup | None
) -> float:
    return median(_turns(communicator, schedule, tensor, group, TURNS))


def _turns(
    communicator: Communicator, schedule: Schedule, tensor: torch.Tensor, group: dist.ProcessGroup | None, turns: int
) -> list[float]:
    def work() -> None:
        communicator.launch(schedule, tensor, "sum", here=True).wait()

    timed(work, group)  # connects
    return [timed(work, group) for _ in range(turns)]


def _add_seconds() -> float:
    a, b = torch.zeros(ADDED), torch.ones(ADDED)
    times = []
    for _ in range(TURNS):
        begun = time.perf_counter()
        a.add_(b)
        times.append(time.perf_counter() - begun)
    return median(times) / a.nbytes
