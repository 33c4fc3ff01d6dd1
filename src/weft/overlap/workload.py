"""Workload: the gradients of one step: how large each is, and how long it takes until it is there.

Tensors stand in the order of the model's parameters. Gradients come in the order ``order``, usually from the last tensor to
the first, each ``backward_seconds`` after the one before it. Tensors of one layer come together: the first of them carries the
layer's time, the others none.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError
from weft.files import write_atomically

Floats = NDArray[np.float64]
VERSION = 1


@dataclass(frozen=True, slots=True)
class GradientTensor:
    """One parameter's gradient."""

    name: str
    elements: int
    backward_seconds: float
    forward_seconds: float = 0.0
    element_bytes: int = 4

    def __post_init__(self) -> None:
        if self.elements < 1 or self.element_bytes < 1:
            raise InputError(
                f"gradient {self.name!r} has {self.elements} elements of {self.element_bytes} bytes: give it some"
            )
        for what, seconds in (("backward", self.backward_seconds), ("forward", self.forward_seconds)):
            if not (math.isfinite(seconds) and seconds >= 0):
                raise InputError(
                    f"{what} time {seconds} of gradient {self.name!r} is not possible: it must be 0 or more"
                )

    @property
    def nbytes(self) -> int:
        return self.elements * self.element_bytes


@dataclass(frozen=True)
class Workload:
    """One step of a model: its tensors in the order of parameters, and the order in which gradients come."""

    name: str
    tensors: tuple[GradientTensor, ...]
    order: tuple[int, ...] = ()
    """places in ``tensors``; if left out, from the last to the first"""
    update_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.tensors:
            raise InputError(f"workload {self.name!r} has no gradients: give it at least one")
        if not self.order:
            object.__setattr__(self, "order", tuple(reversed(range(len(self.tensors)))))
        if sorted(self.order) != list(range(len(self.tensors))):
            raise InputError(
                f"the order of workload {self.name!r} does not name each of {len(self.tensors)} tensors once"
            )
        if not (math.isfinite(self.update_seconds) and self.update_seconds >= 0):
            raise InputError(f"an update of {self.update_seconds} s is not possible: it must take 0 or more")

    @property
    def elements(self) -> int:
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)

    @cached_property
    def forward_seconds(self) -> float:
        return math.fsum(tensor.forward_seconds for tensor in self.tensors)

    @cached_property
    def backward_seconds(self) -> float:
        return float(self.ready[-1])

    @property
    def compute_seconds(self) -> float:
        """What the step takes if nothing has to be sent."""
        return self.forward_seconds + self.backward_seconds + self.update_seconds

    @cached_property
    def ready(self) -> Floats:
        """When each gradient is there, in the order in which they come, from the start of the backward pass on."""
        return np.cumsum([self.tensors[place].backward_seconds for place in self.order])

    @cached_property
    def sizes(self) -> Floats:
        """Bytes of the gradients, in the order in which they come."""
        return np.array([self.tensors[place].nbytes for place in self.order], dtype=np.float64)

    def scaled(self, forward_seconds: float, backward_seconds: float) -> Workload:
        """The same with other totals: each tensor keeps its share."""
        whole = self.forward_seconds, self.backward_seconds
        if min(whole) <= 0:
            raise InputError(f"workload {self.name!r} has no times to scale: give its tensors some")
        forward, backward = forward_seconds / whole[0], backward_seconds / whole[1]
        tensors = tuple(
            replace(t, backward_seconds=t.backward_seconds * backward, forward_seconds=t.forward_seconds * forward)
            for t in self.tensors
        )
        return replace(self, tensors=tensors)

    def to_json(self) -> str:
        document = {
            "weft_workload": VERSION,
            "name": self.name,
            "update_seconds": self.update_seconds,
            "order": list(self.order),
            "tensors": [
                [t.name, t.elements, t.element_bytes, t.backward_seconds, t.forward_seconds] for t in self.tensors
            ],
        }
        return json.dumps(document, indent=1) + "\n"

    def save(self, path: Path) -> None:
        write_atomically(path, self.to_json())

    @staticmethod
    def parse(text: str, name: str = "the workload") -> Workload:
        """The workload that ``to_json`` wrote."""
        try:
            document: dict[str, Any] = json.loads(text)
            if document["weft_workload"] != VERSION:
                raise InputError(f"{name} has version {document['weft_workload']}: this Weft reads version {VERSION}")
            tensors = tuple(
                GradientTensor(str(label), int(elements), float(backward), float(forward), int(width))
                for label, elements, width, backward, forward in document["tensors"]
            )
            order = tuple(int(place) for place in document["order"])
            return Workload(str(document["name"]), tensors, order, float(document["update_seconds"]))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{name} is not a workload that Weft wrote: {error}") from error

    @staticmethod
    def load(path: Path) -> Workload:
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {path}: {error}") from error
        return Workload.parse(text, str(path))
