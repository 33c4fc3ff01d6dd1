"""What happens layer by layer: gradients that have come, parameters that are about to be used, steps for some of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch


class Receiver(Protocol):
    """Somebody who is told of gradients."""

    def gradient_is_there(self, place: int) -> None:
        """A parameter's gradient has been accumulated."""


def tell_of_gradients(receiver: Receiver, parameters: Iterable[torch.nn.Parameter]) -> None:
    """Tell of every gradient, by the parameter's place. Parameters may outlive the receiver: then nobody is told."""
    reference = weakref.ref(receiver)

    def hook(place: int) -> Callable[[torch.Tensor], None]:
        def accumulated(_: torch.Tensor) -> None:
            alive = reference()
            if alive is not None:
                alive.gradient_is_there(place)

        return accumulated

    for place, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(hook(place))  # type: ignore[no-untyped-call]


def tell_of_use(module: torch.nn.Module, places: Mapping[int, int], used: Callable[[list[int]], None]) -> None:
    """Call ``used`` with the places of a part's parameters before that part is; ``places`` are by the parameters' ids.

    A part with parameters of its own may use those of its parts without calling them, as attention does.
    """

    def hook(own: list[int]) -> Callable[..., None]:
        return lambda *_: used(own)

    for part in module.modules():
        if next(part.parameters(recurse=False), None) is not None:
            part.register_forward_pre_hook(hook([places[id(p)] for p in part.parameters() if id(p) in places]))


def step_for(
    optimizer: torch.optim.Optimizer,
    parameters: Iterable[torch.nn.Parameter],
    options: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """An optimizer's step for these parameters alone; with other options of its groups, if they are given.

    It must be one that treats every parameter by itself.
    """
    ids, groups = {id(p) for p in parameters}, optimizer.param_groups
    optimizer.param_groups = [
        {**(group if options is None else options[k]), "params": [p for p in group["params"] if id(p) in ids]}
        for k, group in enumerate(groups)
    ]
    try:
        optimizer.step()
    finally:
        optimizer.param_groups = groups
