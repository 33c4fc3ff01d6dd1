"""Layers that wait for their own parameters before they are used, by hooks on the modules of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch

from weft.torch.layers import tell_of_use

Settle = Callable[[Iterable[int] | None], None]
"""Returns when parameters, by their places, are there; all of them for None."""


class Awaiting:
    """The first forward pass shows which layers announce themselves; parameters of others are awaited before it begins."""

    def __init__(self, module: torch.nn.Module, places: Mapping[int, int], settle: Settle) -> None:
        self._places, self._settle = places, settle
        self._announced: set[int] = set()
        self._early: set[int] | None = None
        module.register_forward_pre_hook(self._begins)
        module.register_forward_hook(self._ends)
        module.register_state_dict_pre_hook(lambda *_: self._settle(None))  # type: ignore[no-untyped-call]
        tell_of_use(module, places, self._used)

    def _used(self, places: list[int]) -> None:
        self._announced.update(places)
        self._settle(places)

    def _begins(self, *_: object) -> None:
        self._settle(self._early)

    def _ends(self, *_: object) -> None:
        if self._early is None:
            self._early = set(self._places.values()) - self._announced
