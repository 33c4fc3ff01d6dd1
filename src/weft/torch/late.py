"""LateOptimizer: an optimizer whose steps happen in the next forward pass, layer by layer, when averages have arrived.

The end of a backward pass and the step then wait for nothing: what is still on its way hides behind the next batch and the next
forward pass. Results are those of the optimizer itself. It must be one that updates every parameter by its own gradient alone;
whoever looks at gradients or parameters between passes calls ``model.settle()`` first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from weft.errors import InputError
from weft.torch.data_parallel import DataParallel
from weft.torch.layers import step_for, tell_of_use

ELEMENTWISE: tuple[type[torch.optim.Optimizer], ...] = (
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam,
    torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adadelta, torch.optim.ASGD, torch.optim.Rprop,
)  # fmt: skip


class LateOptimizer(torch.optim.Optimizer):
    """Takes the place of ``optimizer`` in the training loop, for a model that is wrapped; on all ranks alike.

    ``elementwise=True`` says of an optimizer that Weft does not know that it updates every parameter by its own gradient alone.
    The first step is an ordinary one, in which it is seen which layers announce themselves in the forward pass; parameters
    of others are updated before it begins.
    """

    def __init__(self, model: DataParallel, optimizer: torch.optim.Optimizer, *, elementwise: bool = False) -> None:
        name = type(optimizer).__name__
        if not elementwise and type(optimizer) not in ELEMENTWISE:
            raise InputError(
                f"{name} may need all gradients at once, so it cannot step layer by layer; if it does not, say elementwise=True"
            )
        places = {id(p): place for place, (_, p) in enumerate(model.trained_parameters)}
        for number, group in enumerate(optimizer.param_groups):
            if any(p.requires_grad and id(p) not in places for p in group["params"]):
                raise InputError(
                    f"group {number} of {name} has parameters that the wrapped model has not: leave them out"
                )
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self.state = optimizer.state
        self._model, self._inner, self._places = model, optimizer, places
        self._due: list[dict[str, Any]] | None = None
        """the options of all groups at the time of the step that is still to be done"""
        self._clear: bool | None = None
        """whether gradients are to be cleared after the update, and set to None or not"""
        self._updated: list[int] = []
        self._announced: set[int] = set()
        self._early: set[int] | None = None
        model.update_late(self._arrived)
        # On the module and not on its wrapper, because for evaluation it may be called without that.
        model.module.register_forward_pre_hook(self._begins)
        tell_of_use(model.module, places, self._used)

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Have it done in the next forward pass."""
        if closure is not None:
            raise InputError("a late step cannot evaluate a closure: compute the loss before it")
        if not self._model.is_late:
            self._inner.step()
            if self._early is None:
                used = {place for place, (_, p) in enumerate(self._model.trained_parameters) if p.grad is not None}
                self._early = used - self._announced
            self._model.wait_late = True
            return
        self._due = [{key: _kept(value) for key, value in g.items() if key != "params"} for g in self.param_groups]
        self._clear, self._updated = None, []

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear gradients, those that are still to be used when they have been."""
        if self._due is None:
            self._model.settle()
            self._inner.zero_grad(set_to_none)
            return
        self._clear = set_to_none
        for b in self._updated:
            self._cleared(self._model.bucket_parameters(b))

    def state_dict(self) -> dict[str, Any]:
        self._model.settle()
        return self._inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._model.settle()
        self._inner.load_state_dict(state_dict)
        self.param_groups, self.state = self._inner.param_groups, self._inner.state

    def _used(self, places: list[int]) -> None:
        if self._early is None:
            self._announced.update(places)
        elif self._due is not None:
            self._model.settle(places)

    def _begins(self, *_: object) -> None:
        """A forward pass begins."""
        self._model.settle(self._early if self._due is not None and self._early is not None else None)

    def _arrived(self, b: int, last: bool) -> None:
        """The averages of a bucket are there."""
        if self._due is None:
            return
        own = self._model.bucket_parameters(b)
        step_for(self._inner, own, self._due)
        self._updated.append(b)
        if self._clear is not None:
            self._cleared(own)
        if last:
            self._due = None

    def _cleared(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        for p in parameters:
            if self._clear:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()


def _kept(value: Any) -> Any:
    """As it is now: rates may be tensors, which schedulers change in place."""
    return value.clone() if isinstance(value, torch.Tensor) else value
