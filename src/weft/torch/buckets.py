"""Bucket: gradients in one piece of memory, from which they are sent and in which their average arrives.

A parameter's ``grad`` is a part of that memory, so nothing is copied back. Autograd makes a gradient elsewhere when ``grad`` was
None (after ``zero_grad()``): then it is copied in, once. Where parameters may be unused, the memory has one more element
for each of them, which says whether anybody used it; its average tells all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from weft.errors import InputError
from weft.overlap.arrangement import BucketRule


class Bucket:
    """The memory of one bucket. ``views[k]`` is where the gradient of its k-th parameter is."""

    def __init__(
        self, rule: BucketRule, everything: Sequence[torch.nn.Parameter], with_flags: bool, names: Sequence[str] = ()
    ) -> None:
        self.rule = rule
        self.names = [names[place] for place in rule.parameters] if names else list(map(str, rule.parameters))
        self.parameters = [everything[place] for place in rule.parameters]
        first = self.parameters[0]
        if any((p.dtype, p.device) != (first.dtype, first.device) for p in self.parameters):
            raise InputError(f"a bucket of parameters {rule.parameters} has more than one type or device: divide it")
        self.share = 1.0
        """what gradients are multiplied by on their way in, where averaging leaves that to the bucket"""
        elements = sum(p.numel() for p in self.parameters)
        self.flat = torch.zeros(elements + with_flags * len(self.parameters), dtype=first.dtype, device=first.device)
        self.gradients, self.flags = self.flat[:elements], self.flat[elements:]
        self.views: list[torch.Tensor] = []
        at = 0
        for parameter in self.parameters:
            self.views.append(_part(self.flat, at, parameter))
            at += parameter.numel()

    @property
    def layout(self) -> list[tuple[str, int]]:
        """Names and sizes of the gradients, in the order in which they lie."""
        return [(name, parameter.numel()) for name, parameter in zip(self.names, self.parameters, strict=True)]

    def take_in(self, k: int) -> None:
        """Have the gradient of the k-th parameter in the bucket's memory, times the share; zeros if there is none."""
        gradient, view = self.parameters[k].grad, self.views[k]
        if gradient is None:
            view.zero_()
            return
        if gradient.layout != torch.strided:
            raise InputError(f"the gradient of {self.names[k]!r} is {gradient.layout}: make it dense (sparse=False)")
        if gradient.requires_grad:
            raise InputError(
                f"the gradient of {self.names[k]!r} can be differentiated again (create_graph), which an average cannot"
            )
        if self.share != 1:
            torch.mul(gradient, self.share, out=view)
        elif gradient is not view:
            view.copy_(gradient)

    def attach(self, k: int) -> None:
        """From now on the k-th parameter's gradient is the one in the bucket's memory."""
        self.parameters[k].grad = self.views[k]

    def raise_flags(self, used: Sequence[int]) -> None:
        """Say in the memory which of the parameters were used here."""
        if len(self.flags):
            self.flags.copy_(self.share * torch.tensor(used, dtype=self.flat.dtype))


def _part(flat: torch.Tensor, start: int, parameter: torch.Tensor) -> torch.Tensor:
    """A part of the memory with a parameter's shape, and its strides where these leave no holes.

    Not a view in autograd's sense: whoever detaches a gradient in place may do so.
    """
    stride = parameter.stride() if _is_dense(parameter) else torch.empty(parameter.shape, device="meta").stride()
    return torch.empty(0, dtype=flat.dtype, device=flat.device).set_(
        flat.untyped_storage(), flat.storage_offset() + start, parameter.shape, stride
    )


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill a piece of memory without holes, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
