"""What all ranks do together besides executions: meet, add up, show each other something.

Each is an operation of the backend in line with executions (``backend.py``): a rank that is silent is named by all others within
the deadline, and one that is late, because it tests or writes a checkpoint, is waited for. All ranks call the same in the same
order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from weft.runtime.backend import finish_on_backend, launch_on_backend, wait_for_backend
from weft.runtime.communicators import carrier, communicator_on
from weft.runtime.running import Running

_SUM = dist.ReduceOp.SUM
_OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.MAX: "maximum", dist.ReduceOp.MIN: "minimum"}


class Later:
    """Something on its way."""

    def __init__(self, running: Running, device: torch.device) -> None:
        self._running, self._device = running, device

    def wait(self) -> None:
        """Return when it is there; raise ``PeerError`` if that cannot be."""
        wait_for_backend(self._running, self._device)


def barrier(group: dist.ProcessGroup | None = None, timeout: float | None = None) -> None:
    """Return when all ranks are here."""
    on = carrier(group)
    finish_on_backend(communicator_on(on, "cpu"), "barrier", partial(dist.barrier, on, async_op=True), timeout)


def all_reduce(
    tensor: torch.Tensor, op: dist.ReduceOp.RedOpType = _SUM, group: dist.ProcessGroup | None = None
) -> None:
    """Replace a tensor by the sum, or whatever ``op`` says, of all ranks' tensors."""
    _finished(*_all_reduce(tensor, op, group), tensor.device)


def all_reduce_later(
    tensor: torch.Tensor, op: dist.ReduceOp.RedOpType = _SUM, group: dist.ProcessGroup | None = None
) -> Later:
    """The same, on its way: until it was waited for, the tensor must not be touched."""
    on, subject, start = _all_reduce(tensor, op, group)
    return Later(launch_on_backend(communicator_on(on, tensor.device), subject, start, None), tensor.device)


def all_gather(parts: list[torch.Tensor], own: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
    """Fill ``parts`` with all ranks' tensors, in the order of ranks; all are alike."""
    on = carrier(group, own.device)
    start = partial(dist.all_gather, parts, own, on, async_op=True)
    _finished(on, f"all-gather of {_described(own)}", start, own.device)


def broadcast(tensor: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
    """Replace a tensor by that of the group's rank 0."""
    on = carrier(group, tensor.device)
    start = partial(dist.broadcast, tensor, dist.get_global_rank(on, 0), on, async_op=True)
    _finished(on, f"broadcast of {_described(tensor)} from rank 0", start, tensor.device)


def gathered(data: bytes, device: torch.device | str = "cpu", group: dist.ProcessGroup | None = None) -> list[bytes]:
    """What every rank has given, in the order of ranks; over the network that tensors of a device take."""
    sizes = torch.zeros(dist.get_world_size(group), dtype=torch.int64, device=device)
    sizes[dist.get_rank(group)] = len(data)
    all_reduce(sizes, group=group)
    own = torch.zeros(int(sizes.max()), dtype=torch.uint8, device=device)
    own[: len(data)] = torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8)[: len(data)]
    parts = [torch.empty_like(own) for _ in range(len(sizes))]
    all_gather(parts, own, group)
    return [bytes(part[:size].cpu().numpy()) for part, size in zip(parts, sizes.tolist(), strict=True)]


def _all_reduce(
    tensor: torch.Tensor, op: dist.ReduceOp.RedOpType, group: dist.ProcessGroup | None
) -> tuple[dist.ProcessGroup, str, Callable[[], Any]]:
    on = carrier(group, tensor.device)
    return on, f"{_OPS[op]} of {_described(tensor)}", partial(dist.all_reduce, tensor, op, on, async_op=True)


def _described(tensor: torch.Tensor) -> str:
    return f"{tensor.numel()} {str(tensor.dtype).removeprefix('torch.')}"


def _finished(on: dist.ProcessGroup, subject: str, start: Callable[[], Any], device: torch.device) -> None:
    us = communicator_on(on, device)
    if device.type == "cpu":
        finish_on_backend(us, subject, start, None)
    else:
        wait_for_backend(launch_on_backend(us, subject, start, None), device)
