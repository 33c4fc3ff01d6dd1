"""Data and model by name, or by a function of the user's; checked together before the first step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from weft.errors import InputError
from weft.training.config import Config
from weft.training.data import READERS, Data, Split
from weft.training.functions import called
from weft.training.joining import Place
from weft.training.models import BUILDERS
from weft.training.options import Function
from weft.training.seeds import seed_everything


def prepared(config: Config, place: Place) -> tuple[Data, nn.Module]:
    """The data, and a model with the same parameters on every worker."""
    data = data_of(config)
    seed_everything(config.training.seed)
    model = model_of(config, data).to(place.device)
    _check(config.model.name, model, data, place.device)
    return data, model


def data_of(config: Config) -> Data:
    options = config.data.options
    if not isinstance(options, Function):
        return READERS[config.data.name](options, config.beside)
    found = called("data.name", options, config.source.parent)
    if isinstance(found, Data):
        return found
    try:
        train, test = (Split(*map(torch.as_tensor, pair)) for pair in found)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"data.name: {options.path} must return (training inputs, targets), (test inputs, targets), or weft.training.Data: "
            f"{error}"
        ) from error
    return Data(train, test, 1 + int(max(train.targets.max(), test.targets.max())))


def model_of(config: Config, data: Data) -> nn.Module:
    options: Any = config.model.options
    if not isinstance(options, Function):
        return BUILDERS[config.model.name](data.shape, data.classes, options)
    model = called("model.name", options, config.source.parent, data.shape, data.classes)
    if not isinstance(model, nn.Module):
        raise InputError(f"model.name: {options.path} must return a torch.nn.Module, not {type(model).__name__}")
    return model


@torch.no_grad()
def _check(name: str, model: nn.Module, data: Data, device: torch.device) -> None:
    """One example through the model: it must have one score for every class."""
    inputs, targets = data.batch(data.test, torch.arange(1), device)
    model.eval()
    try:
        scores = model(inputs)
    except (RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"model.name: {name} cannot take inputs of the shape {data.shape}: {error}") from error
    model.train()
    wanted = (*targets.shape, data.classes)
    if not isinstance(scores, torch.Tensor) or tuple(scores.shape) != wanted:
        got = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise InputError(f"model.name: {name} gives {got} for one example of these data; it must be {wanted}")
