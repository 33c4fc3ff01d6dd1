"""One model of all ranks' models, for a while: where parameters are averaged in groups, no rank has it by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist

from weft.runtime import together
from weft.torch.buckets import Bucket

PIECE = 4_000_000
"""elements that are averaged at once"""


@contextmanager
def merged_into(
    module: torch.nn.Module,
    buckets: Sequence[Bucket],
    averages: Sequence[torch.Tensor] | None,
    group: dist.ProcessGroup | None,
) -> Iterator[None]:
    """Inside, parameters (or their exponential averages, if given) and buffers of floating point are means over all ranks."""
    buffers = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
    tensors = [*(bucket.flat for bucket in buckets), *buffers]
    own = [tensor.detach().clone() for tensor in tensors]
    every = [buffer for buffer in module.buffers() if not buffer.is_floating_point()]
    counts = [buffer.clone() for buffer in every]
    with torch.no_grad():
        for bucket, average in zip(buckets, averages or (), strict=False):
            bucket.flat.copy_(average)
        for tensor in tensors:
            _average(tensor, group)
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, before in zip([*tensors, *every], [*own, *counts], strict=True):
                tensor.copy_(before)


def _average(tensor: torch.Tensor, group: dist.ProcessGroup | None) -> None:
    """By the backend, in double precision: every rank gets the same bits."""
    ranks = dist.get_world_size(group)
    if ranks == 1 or not tensor.numel():
        return
    whole = tensor.detach().reshape(-1)
    for piece in torch.split(whole, PIECE):
        sums = piece.double()
        together.all_reduce(sums, group=group)
        piece.copy_(sums / ranks)
    if whole.data_ptr() != tensor.data_ptr():
        tensor.copy_(whole.view(tensor.shape))
