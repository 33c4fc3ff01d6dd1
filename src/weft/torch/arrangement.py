"""The arrangement that needs to know nothing: buckets of about equal size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from weft.overlap.arrangement import Arrangement, BucketRule
from weft.overlap.merging import BUCKET_BYTES, size_limits


def by_size(
    parameters: Sequence[torch.Tensor], bucket_bytes: int = BUCKET_BYTES, first_bytes: int | None = None
) -> Arrangement:
    """Buckets of about so many bytes, from the last parameter to the first: about the order in which gradients come.

    A bucket has one type and one device. It is closed by the parameter that makes it reach its size.
    """
    limit, others = size_limits(bucket_bytes, first_bytes)
    opened: dict[tuple[torch.dtype, torch.device], list[int]] = defaultdict(list)
    closed: list[tuple[int, ...]] = []
    for place in reversed(range(len(parameters))):
        kind = (parameters[place].dtype, parameters[place].device)
        opened[kind].append(place)
        if sum(parameters[p].nbytes for p in opened[kind]) >= limit:
            closed.append(tuple(opened.pop(kind)))
            limit = others
    closed += map(tuple, opened.values())
    # Full when the earliest parameter in it has its gradient.
    return Arrangement(tuple(BucketRule(places) for places in sorted(closed, key=lambda places: -min(places))))
