"""The arrangement that needs to know nothing: buckets of about equal size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from weft.errors import InputError
from weft.overlap.arrangement import Arrangement, BucketRule

BUCKET_BYTES = 25_000_000
FIRST_BYTES = 1_000_000
"""The first bucket is small, so that the network has something to do early, unless a size is asked for."""


def by_size(
    parameters: Sequence[torch.Tensor], bucket_bytes: int = BUCKET_BYTES, first_bytes: int | None = None
) -> Arrangement:
    """Buckets of about so many bytes, from the last parameter to the first: about the order in which gradients come.

    A bucket has one type and one device. It is closed by the parameter that makes it reach its size.
    """
    if bucket_bytes < 1:
        raise InputError(f"buckets of {bucket_bytes} bytes are not possible: it must be at least 1")
    if first_bytes is None:
        first_bytes = FIRST_BYTES if bucket_bytes == BUCKET_BYTES else bucket_bytes
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
