"""Replicas: the models of all workers in one process, as rows of one table.

Parameters of all replicas are one tensor, a row for every worker, and so are gradients, the optimizer's state and the exponential
averages; a module's parameters are views of its row. An optimizer that works element by element, as SGD and Adam do, treats
each row as its own, so one optimizer serves all. Averaging within a group is an average of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import nn

from weft.errors import InputError
from weft.groups import WHOLE, Group, Part, Round
from weft.training.options import Optimizer
from weft.training.rates import optimizer_of


class Replicas:
    """A ``weft.strategies.Ground`` for all workers at once. Buffers (batch normalization) belong to each module alone."""

    def __init__(self, model: nn.Module, ranks: Sequence[int], options: Optimizer) -> None:
        kinds = {(parameter.dtype, parameter.device) for parameter in model.parameters()}
        if len(kinds) != 1:
            raise InputError("all parameters must have one type and be on one device to be trained in memory")
        self.place = {rank: row for row, rank in enumerate(ranks)}
        self.modules = [deepcopy(model) for _ in ranks]
        self._options = options
        flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        self.table = nn.Parameter(flat.expand(len(ranks), -1).clone())
        self.table.grad = torch.zeros_like(self.table)
        self.averages: torch.Tensor | None = None
        for row, module in enumerate(self.modules):
            _bind(module, self.table.data[row], self.table.grad[row])
        self.optimizer = optimizer_of(options, [self.table])

    @property
    def gradients(self) -> torch.Tensor:
        assert self.table.grad is not None
        return self.table.grad

    def average_gradients(self, which: Round) -> None:
        self._average(self.gradients, which)

    @torch.no_grad()
    def average_parameters(self, which: Round, part: Part = WHOLE) -> None:
        for each, own in which.by_part() if part.parts == 1 else [(which, part)]:
            if own.parts == 1:
                self._average(self.table.data, each)
                continue
            columns = self._columns(own)
            rows = self.table.data[:, columns]
            self._average(rows, each)
            self.table.data[:, columns] = rows

    def _columns(self, part: Part) -> torch.Tensor:
        """Where a part of every parameter is in a row."""
        found, at = [], 0
        for parameter in self.modules[0].parameters():
            where = part.of(parameter.numel())
            found.append(torch.arange(at + where.start, at + where.stop))
            at += parameter.numel()
        return torch.cat(found)

    def update(self) -> None:
        """Every worker's own step, with its own state."""
        clip_rows(self.gradients, self._options.clip_norm)
        self.optimizer.step()

    @torch.no_grad()
    def remember(self, weight: float) -> None:
        if self.averages is None:
            self.averages = self.table.data.clone()
        self.averages.lerp_(self.table.data, weight)

    @torch.no_grad()
    def _average(self, rows: torch.Tensor, which: Round) -> None:
        before = rows.clone() if which.sends else rows
        alike: dict[Group, list[int]] = {}
        for rank, row in self.place.items():
            alike.setdefault(which.heard_by(rank), []).append(row)
        for heard, members in alike.items():
            if len(heard) > 1:
                rows[members] = before[[self.place[rank] for rank in heard]].mean(dim=0)


def clip_rows(gradients: torch.Tensor, most: float | None) -> None:
    """Each row's gradient no longer than ``most``, as ``clip_grad_norm_`` does it for one model."""
    if most is not None:
        norms = gradients.norm(dim=1, keepdim=True)
        gradients.mul_((most / (norms + 1e-6)).clamp_max(1.0))


def _bind(module: nn.Module, values: torch.Tensor, gradients: torch.Tensor) -> None:
    """Have a module's parameters and gradients be parts of rows."""
    offset = 0
    for parameter in module.parameters():
        count = parameter.numel()
        parameter.data = values[offset : offset + count].view_as(parameter)
        parameter.grad = gradients[offset : offset + count].view_as(parameter)
        offset += count


@torch.no_grad()
def load_row(module: nn.Module, row: torch.Tensor) -> None:
    """Give a module the parameters of a row, by value."""
    offset = 0
    for parameter in module.parameters():
        parameter.copy_(row[offset : offset + parameter.numel()].view_as(parameter))
        offset += parameter.numel()
