"""Arrangement: which gradients are sent together, and when each bucket may leave.

Buckets are launched in the order of the list, on every rank alike, because executions must be launched in the same order
everywhere. A bucket leaves when all of its gradients are there, those before it have left, and the one that it is told to
come ``after`` has ended here. An arrangement is only words: it can be computed elsewhere, and exchanged between steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from weft.errors import InputError

BUCKET_BYTES = 25_000_000
FIRST_BYTES = 1_000_000
"""The first bucket is small, so that the network has something to do early; as in DistributedDataParallel."""


@dataclass(frozen=True, slots=True)
class BucketRule:
    """The gradients of one bucket, as places in the list of parameters, and when it may leave."""

    parameters: tuple[int, ...]
    after: int | None = None
    """an earlier bucket, whose average must have arrived before this one leaves; None: it leaves as soon as it is full"""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The buckets of a model, in the order in which they are launched."""

    buckets: tuple[BucketRule, ...]

    def __post_init__(self) -> None:
        for number, rule in enumerate(self.buckets):
            if not rule.parameters:
                raise InputError(f"bucket {number} is empty: give it a parameter, or leave it out")
            if rule.after is not None and not 0 <= rule.after < number:
                raise InputError(f"bucket {number} cannot wait for bucket {rule.after}: only for an earlier one")

    def check(self, parameters: int) -> None:
        """Every gradient is in exactly one bucket."""
        found = sorted(place for rule in self.buckets for place in rule.parameters)
        if found != list(range(parameters)):
            wrong = set(range(parameters)) ^ set(found) or {p for p in found if found.count(p) > 1}
            raise InputError(f"parameters {sorted(wrong)} of {parameters} are not in exactly one bucket")

    def __str__(self) -> str:
        return " ".join(
            ",".join(map(str, rule.parameters)) + ("" if rule.after is None else f" after {rule.after};")
            for rule in self.buckets
        )


def by_size(
    parameters: Sequence[torch.Tensor], bucket_bytes: int = BUCKET_BYTES, first_bytes: int = FIRST_BYTES
) -> Arrangement:
    """Buckets of about so many bytes, from the last parameter to the first: about the order in which gradients come.

    A bucket has one type and one device. It is closed by the parameter that makes it reach its size.
    """
    if bucket_bytes < 1:
        raise InputError(f"buckets of {bucket_bytes} bytes are not possible: it must be at least 1")
    limit = min(first_bytes, bucket_bytes)
    opened: dict[tuple[torch.dtype, torch.device], list[int]] = defaultdict(list)
    closed: list[tuple[int, ...]] = []
    for place in reversed(range(len(parameters))):
        kind = (parameters[place].dtype, parameters[place].device)
        opened[kind].append(place)
        if sum(parameters[p].nbytes for p in opened[kind]) >= limit:
            closed.append(tuple(opened.pop(kind)))
            limit = bucket_bytes
    closed += map(tuple, opened.values())
    # Full when the earliest parameter in it has its gradient.
    return Arrangement(tuple(BucketRule(places) for places in sorted(closed, key=lambda places: -min(places))))
