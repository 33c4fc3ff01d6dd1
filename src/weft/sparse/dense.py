"""Dense: all elements, by a reduce-scatter and an all-gather of the same shape as SparDL's. NaN and infinity pass through."""

from __future__ import annotations

import numpy as np

from weft.sparse.blocks import Blocks, bags
from weft.sparse.gathering import bruck
from weft.sparse.number_formats import packed, unpacked, value_bytes
from weft.sparse.pairs import Pairs
from weft.sparse.rounds import Part, Round
from weft.sparse.task import Task
from weft.sparse.wire import Message, MessageError, Span


def dense(task: Task) -> Part[Pairs]:
    """The sum of all, everywhere. With two-byte values, sums are made in four bytes and rounded before each is sent."""
    total = task.flat.copy()
    task.flat[:] = 0
    blocks, width = Blocks(task.length, task.workers), value_bytes(task.values)
    for gap, size in bags(task.workers):
        target, source = (task.rank + gap) % task.workers, (task.rank - gap) % task.workers
        sent, expected = blocks.spans(task.rank + gap, size), blocks.spans(task.rank, size)
        bag = np.concatenate([packed(total[start:stop], task.values) for start, stop in sent])
        room = width * sum(stop - start for start, stop in expected)
        arrived = yield Round({target: Message(bag, len(bag) // width)}, {source: room})
        _check_size(len(arrived[source]), room)
        at = 0
        for start, stop in expected:
            total[start:stop] += unpacked(arrived[source][at : at + width * (stop - start)], task.values)
            at += width * (stop - start)
    start, stop = blocks.span(task.rank)
    mine = Message(packed(total[start:stop], task.values).copy(), stop - start)
    spans = blocks.spans(0, task.workers)
    most = [width * (stop - start) for start, stop in spans]
    items = yield from bruck(range(task.workers), task.rank, mine, most)
    for item, span in zip(items, spans, strict=True):
        _put(total, item.data, span, task)
    return Pairs(np.arange(task.length, dtype=np.int32), total)


def _put(total: np.ndarray, data: np.ndarray, span: Span, task: Task) -> None:
    start, stop = span
    _check_size(len(data), value_bytes(task.values) * (stop - start))
    total[start:stop] = unpacked(data, task.values)


def _check_size(found: int, expected: int) -> None:
    if found != expected:
        raise MessageError(f"a message has {found} bytes where {expected} were expected")
