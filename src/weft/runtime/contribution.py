"""What a rank puts into an all-reduce, and how the result gets back into its tensor.

An average is made before the sum, as torch's DistributedDataParallel does it: every rank divides its own contribution by the
number of participants, or multiplies it by its share of the weights. Partial sums then stay in the range of the
values, which matters in fp16. Additions happen in the tensor's own type, one after the other in the order of the
schedule; fp16 and bf16 are rounded after each. Every chunk is summed up once and copied, or summed up from the same two
terms on both sides of an exchange, so all ranks end with the same bits. What is rounded on the wire is added up in float32 at
least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import torch

from weft.errors import InputError
from weft.runtime.program import Program
from weft.schedule import Schedule

ReduceOp = Literal["average", "sum"]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


class Contribution:
    """A tensor that takes part: ``flat`` is what is sent and added to, contiguous."""

    def __init__(
        self, tensor: torch.Tensor, program: Program, op: ReduceOp, weights: tuple[float, ...] | None,
        wire: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        tensor = tensor.detach()
        self._tensor = tensor
        self._participates = program.participates
        kind = tensor.dtype if wire is None or tensor.element_size() > wire.itemsize else torch.float32
        if not self._participates:
            self.flat = tensor.new_zeros(tensor.numel(), dtype=kind)
        else:
            self._in_place = tensor.is_contiguous() and tensor.dtype == kind
            self.flat = tensor.view(-1) if self._in_place else tensor.reshape(-1).to(kind)
            _scale(self.flat, program.schedule, program.rank, op, weights)

    def settle(self) -> None:
        """Put the result where the caller expects it; ranks that only relayed keep their tensor as it was."""
        if self._participates and not self._in_place:
            self._tensor.copy_(self.flat.view(self._tensor.shape))


def _scale(flat: torch.Tensor, schedule: Schedule, rank: int, op: ReduceOp, weights: tuple[float, ...] | None) -> None:
    people = schedule.participants
    if weights is None:
        if op == "average" and len(people) > 1:
            flat.div_(len(people))
        return
    total = math.fsum(weights[person] for person in people) if op == "average" else 1.0
    flat.mul_(weights[rank] / total)


def check(tensor: torch.Tensor, op: str, weights: Sequence[float] | None, schedule: Schedule) -> None:
    """Refuse what cannot be reduced, with a remedy."""
    if tensor.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise InputError(f"a tensor of {tensor.dtype} cannot be reduced: convert it to one of {names}")
    if tensor.layout != torch.strided:
        raise InputError(f"a tensor of layout {tensor.layout} cannot be reduced: make it dense first")
    if op not in get_args(ReduceOp):
        raise InputError(f"op {op!r} is not known: it must be 'average' or 'sum'")
    if weights is None:
        return
    if len(weights) != schedule.workers:
        raise InputError(f"{len(weights)} weights for {schedule.workers} ranks: give one for each")
    wrong = [w for w in weights if not (math.isfinite(w) and w >= 0)]
    if wrong or math.fsum(weights[person] for person in schedule.participants) <= 0:
        raise InputError(f"weights {list(weights)} are not possible: finite numbers, none negative, not all zero")
