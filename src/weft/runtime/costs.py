"""What a message and an addition cost on these machines, measured by executing: all ranks at once, as in a training step."""

from __future__ import annotations

import time
from statistics import median

import torch
import torch.distributed as dist

from weft.collectives import ring
from weft.network import full_mesh
from weft.planning import Costs
from weft.runtime.communicator import Communicator
from weft.schedule import Schedule

SEGMENTS = 16
ADDED = 1 << 20
"""Elements of the tensors that are added."""
TURNS = 5
TCP_UNFAIRNESS = 0.3
"""How unevenly connections of TCP share; not measured but chosen. With it a simulated all-to-all of 8 hosts reaches 68% of its
fluid rate; 71% to 91% were measured on emulated racks (``benchmarks/incast.py``)."""


def measured_costs(communicator: Communicator, group: dist.ProcessGroup | None = None) -> Costs:
    """The costs on the slowest rank; every rank gets the same. Takes well under a second on an idle machine.

    A ring of tiny segments has nearly nothing to carry, so what it takes is its messages, one after the other on every channel.
    In a ring without segments every message besides waits until the one before it has been noticed.
    """
    ranks = communicator.transport.size
    if ranks == 1:
        return Costs()
    whole = ring(full_mesh(ranks))
    steps = 2 * (ranks - 1)
    tiny = torch.zeros(ranks * SEGMENTS)
    found = torch.tensor(
        [
            _seconds(communicator, whole.segmented(SEGMENTS), tiny, group) / (SEGMENTS * steps),
            _seconds(communicator, whole, tiny, group) / steps,
            _add_seconds(),
        ]
    )
    dist.all_reduce(found, dist.ReduceOp.MAX, group)
    message, step, adding = (float(x) for x in found)
    return Costs(message, adding, max(0.0, step - message), TCP_UNFAIRNESS)


def _seconds(
    communicator: Communicator, schedule: Schedule, tensor: torch.Tensor, group: dist.ProcessGroup | None
) -> float:
    times = []
    for turn in range(TURNS + 1):
        dist.barrier(group)
        begun = time.perf_counter()
        communicator.launch(schedule, tensor, "sum", here=True).wait()
        if turn:  # the first one connects
            times.append(time.perf_counter() - begun)
    return median(times)


def _add_seconds() -> float:
    a, b = torch.zeros(ADDED), torch.ones(ADDED)
    times = []
    for _ in range(TURNS):
        begun = time.perf_counter()
        a.add_(b)
        times.append(time.perf_counter() - begun)
    return median(times) / a.nbytes
