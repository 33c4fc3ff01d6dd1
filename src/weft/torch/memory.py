"""ParameterMemory: what is remembered for every parameter, whatever bucket it is in.

DistributedDataParallel rebuilds its buckets after the first backward pass, so nothing may be remembered by the number of a bucket
or by a place in one. Parameters are known by their names, if these were given, or else by the order in which they were first
seen: that is the same in every run of the same model, because buckets always begin the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from weft.errors import InputError


@dataclass(slots=True)
class Remembered:
    """Of one parameter."""

    shape: tuple[int, ...]
    averaged: int = 0
    """how often"""
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """by name, whatever a hook keeps from one step to the next, such as what a compressor has left out"""


class ParameterMemory:
    """By parameter; can be saved and loaded before the parameters are seen."""

    def __init__(self, named: Iterable[tuple[str, torch.Tensor]] | None = None) -> None:
        self._keys: dict[torch.Tensor, str] = {}
        self._records: dict[str, Remembered] = {}
        self._given = named is not None
        for name, parameter in named or ():
            self._keys[parameter] = name

    def of(self, parameters: Sequence[torch.Tensor]) -> list[Remembered]:
        """What is remembered of these."""
        return [self._record(parameter) for parameter in parameters]

    def _record(self, parameter: torch.Tensor) -> Remembered:
        if parameter not in self._keys:
            if self._given:
                raise InputError(f"a parameter of shape {tuple(parameter.shape)} is not among the named ones: name all")
            self._keys[parameter] = str(len(self._keys))
        key = self._keys[parameter]
        found = self._records.setdefault(key, Remembered(tuple(parameter.shape)))
        if found.shape != tuple(parameter.shape):
            raise InputError(
                f"parameter {key!r} has shape {tuple(parameter.shape)}, but {found.shape} was loaded for it: this state is "
                "another model's, or was saved with other names"
            )
        return found

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors."""
        return {
            key: {"shape": list(r.shape), "averaged": r.averaged, "tensors": dict(r.tensors)}
            for key, r in self._records.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse; names that were given must be the ones that were saved."""
        unknown = set(state) - set(self._keys.values()) if self._given else set()
        if unknown:
            raise InputError(f"the state has {sorted(unknown)}, which this model has not: load it into the same model")
        self._records = {
            key: Remembered(tuple(entry["shape"]), int(entry["averaged"]), dict(entry["tensors"]))
            for key, entry in state.items()
        }
