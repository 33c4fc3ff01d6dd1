"""TopkDSA (SparCML's split all-gather): every block is added up at one worker, and the sums are gathered, sparse or dense.

Nothing is dropped on the way, so the sums grow with the number of workers: that is the dilemma which the others avoid.
"""

from __future__ import annotations

import numpy as np

from weft.sparse.blocks import Blocks
from weft.sparse.gathering import GATHERS, Gather, check_gather
from weft.sparse.number_formats import rounded
from weft.sparse.pairs import Pairs, added_up, joined
from weft.sparse.rounds import Part, Round
from weft.sparse.task import Task
from weft.sparse.wire import Span


def topk_dsa(task: Task, gather: Gather = "doubling") -> Part[Pairs]:
    """A message to every other worker in the first round; then an all-gather of the sums."""
    check_gather(gather)
    everything = (0, task.length)
    chosen = task.selected(everything)
    blocks = Blocks(task.length, task.workers)
    spans = blocks.spans(0, task.workers)
    total = yield from split(task, chosen, spans, task.quota.kept(everything))
    own = spans[task.rank]
    if 2 * len(total) > own[1] - own[0]:
        total = _filled(total, own)
    coarse = rounded(total, task.values)
    task.ledger.leave(Pairs(total.index, total.value - coarse.value), 1.0)
    most = [task.most_bytes([span], span[1] - span[0]) for span in spans]
    mine = task.message([coarse], [own])
    items = yield from GATHERS[gather](range(task.workers), task.rank, mine, most)
    return joined([task.opened(item.data, [span])[0] for item, span in zip(items, spans, strict=True)])


def split(task: Task, chosen: Pairs, spans: list[Span], most: int) -> Part[Pairs]:
    """The sum, over all workers, of what they chose in this worker's span; each chose so many at most in all."""
    own, others = spans[task.rank], [r for r in range(task.workers) if r != task.rank]
    room = task.most_bytes([own], min(most, own[1] - own[0]))
    sends = {r: task.message([chosen.within(*spans[r])], [spans[r]]) for r in others}
    arrived = (yield Round(sends, dict.fromkeys(others, room))) if others else {}
    parts = [chosen.within(*own) if r == task.rank else task.opened(arrived[r], [own])[0] for r in range(task.workers)]
    return added_up(parts)


def _filled(pairs: Pairs, span: Span) -> Pairs:
    """The same with every index of the span: values alone take less than half as many numbers with their indexes."""
    start, stop = span
    value = np.zeros(stop - start, np.float32)
    value[pairs.index - start] = pairs.value
    return Pairs(np.arange(start, stop, dtype=np.int32), value)
