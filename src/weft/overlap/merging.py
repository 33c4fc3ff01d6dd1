"""Schedulers that send one bucket after the other: each gradient alone, all at the end, buckets of one size, and MG-WFBP."""

from __future__ import annotations

from weft.errors import InputError
from weft.overlap.arrangement import Arrangement, arranged
from weft.overlap.communication import CommunicationModel
from weft.overlap.workload import Workload

BUCKET_BYTES = 25 << 20
FIRST_BYTES = 1 << 20
"""The defaults of DistributedDataParallel."""


def size_limits(bucket_bytes: int, first_bytes: int | None) -> tuple[int, int]:
    """The sizes at which the first bucket and the others are closed.

    The first one is small, so that the network has something to do early, unless a size is asked for.
    """
    if first_bytes is None:
        first_bytes = FIRST_BYTES if bucket_bytes == BUCKET_BYTES else bucket_bytes
    if min(bucket_bytes, first_bytes) < 1:
        raise InputError(f"buckets of {min(bucket_bytes, first_bytes)} bytes are not possible: give them at least 1")
    return min(first_bytes, bucket_bytes), bucket_bytes


def wfbp(workload: Workload, model: CommunicationModel) -> Arrangement:
    """Wait-free backpropagation: every gradient as soon as it is there and the one before has ended."""
    del model
    count = len(workload.tensors)
    return arranged(workload.order, range(1, count + 1), 1)


def one_bucket(workload: Workload, model: CommunicationModel) -> Arrangement:
    """Everything together, after the backward pass."""
    del model
    return arranged(workload.order, [len(workload.tensors)], 1)


def fixed_size(
    workload: Workload, model: CommunicationModel, bucket_bytes: int = BUCKET_BYTES, first_bytes: int | None = None
) -> Arrangement:
    """Buckets of about one size, as DistributedDataParallel makes them: closed by the gradient that fills them."""
    del model
    limit, others = size_limits(bucket_bytes, first_bytes)
    ends, held = [], 0.0
    for place, size in enumerate(workload.sizes.tolist(), 1):
        held += size
        if held >= limit or place == len(workload.sizes):
            ends.append(place)
            held, limit = 0.0, others
    return arranged(workload.order, ends, 1)


def mg_wfbp(workload: Workload, model: CommunicationModel) -> Arrangement:
    """Merge a gradient with the next one if waiting for that costs less than starting once more.

    Shi, Chu and Li 2019: merged iff ready(next) < start + time, which a message's a is a part of, and ready(next) - start < a.
    """
    return merged_within(workload, model, model.a)


def merged_within(workload: Workload, model: CommunicationModel, patience: float) -> Arrangement:
    """Merge a gradient with the next one if that comes less than so many seconds after the first could be sent."""
    ready, sizes = workload.ready.tolist(), workload.sizes.tolist()
    ends: list[int] = []
    free, held = 0.0, 0.0
    for place, (full, size) in enumerate(zip(ready, sizes, strict=True), 1):
        held += size
        start = max(full, free)
        if place < len(ready) and ready[place] - start < patience:
            continue
        ends.append(place)
        free, held = start + model.a + model.b * held, 0.0
    return arranged(workload.order, ends, 1)
