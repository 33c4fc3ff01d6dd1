"""What a message and an addition cost on these machines, measured by executing: all ranks at once, as in a training step."""

from __future__ import annotations

import time
from dataclasses import replace
from statistics import median

import torch
import torch.distributed as dist

from weft.collectives import ring
from weft.network import Network, full_mesh
from weft.packing.fair import fair_rates
from weft.planning import Costs
from weft.runtime.communicator import Communicator
from weft.runtime.probe_failure import probe_error
from weft.runtime.probe_flows import Buffers, exchange, stream_limit
from weft.runtime.transport import TransportError
from weft.runtime.turns import slowest, timed
from weft.schedule import Schedule

SEGMENTS = 16
ADDED = 1 << 20
"""Elements of the tensors that are added."""
TURNS = 5
STREAM_SECONDS, MOST_STREAMED, STREAM_TURNS, PATIENCE = 0.5, 1_000_000_000, 3, 60.0
"""How long the streams last that show the links' efficiency, the most bytes of each, how often; how long a message may take."""
LEAST_EFFICIENCY = 0.5
"""What is slower than that is not a matter of headers: the network is another than the one that is known."""
TCP_UNFAIRNESS = 0.3
"""How unevenly connections of TCP share; not measured but chosen. With it a simulated all-to-all of 8 hosts reaches 68% of its
fluid rate; 69% to 85% were measured on emulated racks (``benchmarks/incast.py``)."""


def measured_costs(
    communicator: Communicator, group: dist.ProcessGroup | None = None, network: Network | None = None
) -> Costs:
    """The costs on the slowest rank; every rank gets the same. Takes about a second, and two more with a network.

    A ring of tiny segments has nearly nothing to carry, so what it takes is its messages, one after the other on every channel.
    In a ring without segments every message besides waits until the one before it has been noticed. If the network is known,
    streams that follow it show what part of the links' rates is left for data.
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
    return costs if network is None else replace(costs, efficiency=_efficiency(communicator, network, group))


def _efficiency(communicator: Communicator, network: Network, group: dist.ProcessGroup | None) -> float:
    """What streams from every worker to the next reach at once, as a part of what links allow: the median of the workers'.

    Not the time of a ring, which waits for the slowest in every step: behind a slow host one took 1.1 to 2 times as long as its
    bytes, by turns, on an emulated network, and said nothing about the other links.
    """
    transport, order = communicator.transport, network.region_tree.in_order()
    place = order.index(transport.rank)
    before, after = order[place - 1], order[(place + 1) % len(order)]
    pairs = [(rank, order[(k + 1) % len(order)]) for k, rank in enumerate(order)]
    allowed = dict(zip(pairs, fair_rates(network, pairs).tolist(), strict=True))[before, transport.rank]
    parts = [0.0] * transport.size
    buffers = Buffers()
    most = stream_limit(MOST_STREAMED)
    for _ in range(STREAM_TURNS):
        try:
            stream, _ = exchange(transport, buffers, after, before, STREAM_SECONDS, most, PATIENCE)
        except TransportError as error:
            raise probe_error(transport, error) from error
        parts[transport.rank] = max(parts[transport.rank], stream.rate / allowed)
    return min(1.0, max(LEAST_EFFICIENCY, median(slowest(parts, group))))


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
