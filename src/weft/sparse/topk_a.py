"""TopkA (SparCML, Renggli et al. 2019): everybody gets everybody's strongest elements and adds them up."""

from __future__ import annotations

from weft.sparse.gathering import GATHERS, Gather, check_gather
from weft.sparse.pairs import Pairs, added_up
from weft.sparse.rounds import Part
from weft.sparse.task import Task


def topk_a(task: Task, gather: Gather = "doubling") -> Part[Pairs]:
    """The result may have as many elements as all workers' selections together."""
    check_gather(gather)
    span = (0, task.length)
    most = task.most_bytes([span], task.quota.kept(span))
    mine = task.message([task.selected(span)], [span])
    items = yield from GATHERS[gather](range(task.workers), task.rank, mine, [most] * task.workers)
    return added_up([task.opened(item.data, [span])[0] for item in items])
