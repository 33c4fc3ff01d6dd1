"""Training all workers of a network in one process: the same strategies, and times from the simulator.

Nothing depends on the machine: results are the same in every run, and time is what steps would take on the network. So the
time to an accuracy can be found on a laptop, for any network file and any strategy. What is computed is what the workers would
compute, batch by batch; what they would wait for is simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from weft.errors import InputError
from weft.groups import EVERY
from weft.network import Network
from weft.planning import Plan
from weft.schedule import Schedule
from weft.strategies import Averaging, Options, Serving, StepClock, Strategy, strategy_of, synchronized_update
from weft.strategies.clock import ConditionsAt, at_rest
from weft.training.batches import Batches
from weft.training.config import Config
from weft.training.joining import Place
from weft.training.judging import Judge
from weft.training.metrics import StepRecord
from weft.training.options import StrategyOptions
from weft.training.preparation import prepared
from weft.training.rates import learning_rate, set_rate
from weft.training.replicas import Replicas
from weft.training.sampler import Sampler
from weft.training.serving import Server, served


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A pattern that was adjusted: after which step, and who was slow then."""

    step: int
    slow: str


@dataclass
class MemoryTraining:
    """A training of all workers. ``records`` yields what is known about every step, as it is taken."""

    config: Config
    network: Network
    strategy: Strategy
    clock: StepClock
    batches: Batches
    replicas: Replicas
    judge: Judge
    evaluate_steps: int | None = None
    """test every so many steps, instead of at the ends of epochs"""
    adjustments: list[Adjustment] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """How many there are in all."""
        wanted = self.config.training.steps
        whole = self.batches.sampler.epoch_steps * self.config.training.epochs
        return whole if wanted is None else min(whole, wanted)

    def records(self) -> Iterator[StepRecord]:
        for module in self.replicas.modules:
            module.train()
        if isinstance(self.strategy, Serving):
            server = Server(self.replicas, self.config.optimizer)
            yield from served(self, self.strategy, server)
        else:
            yield from self._averaged(self.strategy)

    def _averaged(self, strategy: Averaging) -> Iterator[StepRecord]:
        elapsed = 0.0
        for step in range(self.steps):
            if step and step % EVERY == 0:
                strategy = self._adjusted(strategy, step)
            rate = self.rate(step)
            set_rate(self.replicas.optimizer, rate)
            self.replicas.gradients.zero_()
            losses = [self.batches.backward(module, step, row) for row, module in enumerate(self.replicas.modules)]
            exchange = synchronized_update(strategy, step, self.replicas)
            spent = self.clock.communication(exchange.round, step)
            seconds = self.clock.longest_compute + spent.seconds
            elapsed += seconds
            loss, accuracy = self.judge.of_replicas(self.replicas) if self.is_tested(step) else (None, None)
            yield StepRecord(
                step=step + 1, epoch=self.batches.epoch(step) + 1, loss=sum(losses) / len(losses),
                samples=self.batches.sampler.step_examples, seconds=seconds, elapsed=elapsed,
                communication_seconds=spent.seconds, exposed_seconds=spent.seconds, bytes_sent=round(spent.nbytes),
                learning_rate=rate, accuracy=accuracy, test_loss=loss,
            )  # fmt: skip

    def _adjusted(self, strategy: Averaging, step: int) -> Averaging:
        """The strategy after looking at how long groups took; it is kept in mind for whoever asks."""
        if strategy.contention is None:
            return strategy
        after = strategy.adjusted(self.clock.meetings(strategy, step - EVERY, step))
        if after.pattern != strategy.pattern:
            self.adjustments.append(Adjustment(step, str(after.contention)))
        self.strategy = after
        return after

    def rate(self, step: int) -> float:
        share = self.batches.share(step, self.config.training.epochs)
        return learning_rate(self.config.optimizer, share, step)

    def is_tested(self, step: int) -> bool:
        """Whether the model is tested after a step."""
        if step == self.steps - 1:
            return True
        if self.evaluate_steps is not None:
            return (step + 1) % self.evaluate_steps == 0
        ended = self.batches.epoch(step + 1) > self.batches.epoch(step)
        return ended and self.batches.epoch(step + 1) % self.config.output.evaluate_epochs == 0


def memory_training(
    config: Config, network: Network, conditions: ConditionsAt = at_rest, evaluate_steps: int | None = None
) -> MemoryTraining:
    """The training that a file describes, of all active workers of a network, by the file's strategy."""
    ranks, options = network.active, config.strategy
    device = torch.device("cuda" if config.training.device == "cuda" else "cpu")
    data, model = prepared(config, Place(0, len(ranks), device))
    sampler = Sampler(len(data.train), config.training.batch, len(ranks), config.training.seed)
    strategy = strategy_of(options.name, network, strategy_options(options, config.training.seed))
    nbytes = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    collective, given = way_of(config, strategy.name, network)
    clock = StepClock(
        network, nbytes / options.parts, options.compute_seconds, options.speeds, conditions, collective, given
    )
    return MemoryTraining(
        config, network, strategy, clock, Batches(data, sampler, config.training, device),
        Replicas(model, ranks, config.optimizer), Judge(model, data, device), evaluate_steps,
    )  # fmt: skip


def strategy_options(options: StrategyOptions, seed: int) -> Options:
    return Options(
        options.every, options.graph, seed, options.staleness, options.servers or None, options.ensemble, options.parts
    )


def way_of(config: Config, strategy: str, network: Network | None) -> tuple[str | None, tuple[Schedule, ...]]:
    """How groups average: the name of a collective, or None for the fastest; and the schedule of a plan file.

    The backend's way is a ring in rank order.
    """
    name = config.plan.plan.replace("_", "-")
    if not name.endswith(".json"):
        return {"auto": None, "backend": "ring"}.get(name, name), ()
    if strategy not in ("bsp", "local-sgd"):
        raise InputError(
            f"plan.plan: a plan file is for all workers, and {strategy} is not: name a collective, or auto"
        )
    schedule = Plan.load(config.beside(config.plan.plan)).schedule
    if network is not None and (schedule.workers != len(network.workers) or schedule.participants != network.active):
        raise InputError(
            f"plan.plan: {config.plan.plan} is for {schedule.workers} workers, of whom {len(schedule.participants)} take part; "
            f"{network.name!r} has {len(network.workers)}, of whom {len(network.active)} do"
        )
    return None, (schedule,)
