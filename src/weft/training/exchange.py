"""Small things that the workers tell each other besides gradients."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist

from weft.errors import InputError
from weft.runtime import together
from weft.runtime.together import gathered

T = TypeVar("T")


def from_rank_0(data: bytes | None, device: torch.device) -> bytes | None:
    """What rank 0 has given, on every worker."""
    size = torch.tensor([-1 if data is None else len(data)], device=device)
    together.broadcast(size)
    if int(size) < 0:
        return None
    content = torch.empty(int(size), dtype=torch.uint8, device=device)
    if dist.get_rank() == 0 and data:
        content.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    together.broadcast(content)
    return bytes(content.cpu().numpy())


def everybody(make: Callable[[], T], device: torch.device) -> T:
    """What ``make`` returns, where it does so on every worker; otherwise all raise the mistakes of those where it did not."""
    mistake, made = "", None
    try:
        made = make()
    except InputError as error:
        mistake = str(error) or "a mistake without a name"
    mistakes = [json.loads(text) for text in gathered(json.dumps(mistake).encode(), device)]
    if any(mistakes):
        raise InputError(_told(mistakes))
    assert made is not None
    return made


def _told(mistakes: list[str]) -> str:
    """One mistake of all ranks once; others behind their ranks."""
    if len(set(mistakes)) == 1:
        return mistakes[0]
    found = [(rank, text) for rank, text in enumerate(mistakes) if text]
    return "; ".join(f"rank {rank}: {text}" for rank, text in found)


def average(tensors: list[torch.Tensor]) -> None:
    """Replace tensors of floating point by their averages over all workers."""
    if not tensors or dist.get_world_size() == 1:
        return
    flat = torch.cat([tensor.detach().double().flatten() for tensor in tensors])
    together.all_reduce(flat)
    flat /= dist.get_world_size()
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    with torch.no_grad():
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))
