"""Training around parameter servers, in memory: gradients are applied in the order in which they would come.

Each worker computes with the parameters that it pulled, while others move on; when its gradient comes is simulated. As many
gradients are computed as with any other strategy, so fast workers contribute more of them. One step of the records is as many
pushes as there are workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import nn

from weft.strategies import Arrival, Serving, arrivals
from weft.training.metrics import StepRecord
from weft.training.options import Optimizer
from weft.training.rates import optimizer_of, set_rate
from weft.training.replicas import Replicas, clip_rows

if TYPE_CHECKING:
    from weft.training.in_memory import MemoryTraining


class Server:
    """The parameters that all workers pull, and the optimizer that applies what they push."""

    def __init__(self, replicas: Replicas, options: Optimizer) -> None:
        self.replicas = replicas
        self._clip = options.clip_norm
        self.row = nn.Parameter(replicas.table.data[:1].clone())
        self.row.grad = torch.zeros_like(self.row)
        self.optimizer = optimizer_of(options, [self.row])

    @torch.no_grad()
    def push(self, row: int) -> None:
        """Apply a worker's gradient, divided by the number of workers."""
        assert self.row.grad is not None
        self.row.grad.copy_(self.replicas.gradients[row : row + 1])
        clip_rows(self.row.grad, self._clip)
        self.row.grad.div_(len(self.replicas.modules))
        self.optimizer.step()

    @torch.no_grad()
    def pull(self, row: int) -> None:
        self.replicas.table.data[row] = self.row.data[0]


def served(training: MemoryTraining, strategy: Serving, server: Server) -> Iterator[StepRecord]:
    """What is known after every so many pushes as there are workers."""
    place, workers = training.replicas.place, len(strategy.workers)
    losses: list[float] = []
    before, step = 0.0, 0
    cycles = training.clock.cycles(strategy)
    sending = sum(cycles[worker] - training.clock.compute(worker) for worker in cycles) / workers
    # Both ways; a server's own part needs no network.
    sent = round(2 * training.clock.nbytes * (workers - 1))
    for came in arrivals(cycles, strategy.bound, training.steps):
        losses.append(_applied(training, server, came, step))
        for worker in came.begins:
            server.pull(place[worker])
        if len(losses) < workers:
            continue
        tested = training.is_tested(step)
        loss, accuracy = (
            training.judge.of_row(server.row.data[0], training.replicas.modules) if tested else (None, None)
        )
        yield StepRecord(
            step=step + 1, epoch=training.batches.epoch(step) + 1, loss=sum(losses) / workers,
            samples=training.batches.sampler.step_examples, seconds=came.seconds - before, elapsed=came.seconds,
            communication_seconds=sending, exposed_seconds=sending, bytes_sent=sent,
            learning_rate=training.rate(step), accuracy=accuracy, test_loss=loss,
        )  # fmt: skip
        losses, before, step = [], came.seconds, step + 1
        if step == training.steps:
            return


def _applied(training: MemoryTraining, server: Server, came: Arrival, step: int) -> float:
    """Compute what a worker computed with what it had pulled, and apply it."""
    row = training.replicas.place[came.worker]
    training.replicas.gradients[row].zero_()
    loss = training.batches.backward(training.replicas.modules[row], came.step, row)
    set_rate(server.optimizer, training.rate(step))
    server.push(row)
    return loss
