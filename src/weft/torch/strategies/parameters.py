"""Parameters in buckets: each bucket is one piece of memory, which is averaged in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from weft.groups import Part
from weft.torch.arrangement import by_size
from weft.torch.buckets import Bucket

BUCKET_BYTES = 4_000_000
"""Small enough that several are on their way during a backward pass, large enough that messages cost little."""


def parameter_buckets(parameters: Sequence[torch.nn.Parameter], bucket_bytes: int) -> list[Bucket]:
    """Have the parameters in buckets, from the last layers to the first, without changing their values."""
    arrangement = by_size(parameters, bucket_bytes, bucket_bytes)
    buckets = [Bucket(rule, parameters, with_flags=False) for rule in arrangement.buckets]
    for bucket in buckets:
        for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
            view.copy_(parameter.detach())
            parameter.data = view
    return buckets


class BucketPart:
    """A copy of one part of every parameter of a bucket, to be averaged while the rest stays."""

    def __init__(self, bucket: Bucket, part: Part) -> None:
        memory = torch.split(bucket.flat, [parameter.numel() for parameter in bucket.parameters])
        self._slices = [one[part.of(len(one))] for one in memory]
        self.flat = torch.cat(self._slices)

    def put_back(self) -> None:
        """Have it in its place again."""
        torch._foreach_copy_(self._slices, torch.split(self.flat, [len(one) for one in self._slices]))
