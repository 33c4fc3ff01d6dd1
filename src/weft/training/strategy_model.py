"""The model of a training by a strategy, with what the loop and its summary ask of every model."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from weft.strategies import Options
from weft.torch import Choice, Decision, Synchronized
from weft.torch.choice import BACKEND
from weft.torch.strategies.parameters import BUCKET_BYTES
from weft.training.config import Config, Planning
from weft.training.in_memory import strategy_options, way_of
from weft.training.joining import Place
from weft.training.rates import optimizer_of
from weft.training.synchronization import network_of


class StrategyModel(Synchronized):
    """A ``Synchronized`` that answers what is asked of a ``DataParallel``: there is no plan to decide on."""

    compress = None
    settled_arrangement = None

    @property
    def choice(self) -> Choice:
        return Choice.of(BACKEND)

    @property
    def decision(self) -> Decision:
        return Decision(self.choice, (self.report(),))

    def step_trace(self) -> None:
        """Of averages in groups there is none."""

    def compress_state_dict(self) -> dict[str, Any]:
        return {}

    def take_compress_statistics(self) -> None:
        """Everything is sent."""


class Stepping:
    """What the loop takes for the optimizer: its step is the model's."""

    def __init__(self, model: StrategyModel) -> None:
        self._model = model

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self._model.optimizer.param_groups

    def zero_grad(self) -> None:
        self._model.optimizer.zero_grad()

    def step(self) -> None:
        self._model.step()

    def state_dict(self) -> dict[str, Any]:
        return self._model.optimizer.state_dict()


def strategy_model(module: nn.Module, config: Config, place: Place) -> StrategyModel:
    """The model, wrapped as the training file says; all workers call this together."""
    optimizer: torch.optim.Optimizer = optimizer_of(config.optimizer, module.parameters())
    network = network_of(config, place.world)
    name = config.strategy.name
    collective, given = way_of(config, name, network)
    bucket = BUCKET_BYTES if config.plan.bucket == Planning().bucket else config.plan.bucket_bytes
    return StrategyModel(
        module, optimizer, name, options=options_of(config), network=network, collective=collective, given=given,
        bucket_bytes=bucket, in_backward=None if config.optimizer.clip_norm is None else False,
    )  # fmt: skip


def options_of(config: Config) -> Options:
    return strategy_options(config.strategy, config.training.seed)
