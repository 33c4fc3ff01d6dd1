"""gTopk (Shi et al. 2019): selections are merged, and cut down again, up a binomial tree, and the result goes down it."""

from __future__ import annotations

from weft.errors import InputError
from weft.sparse.pairs import Pairs, added
from weft.sparse.rounds import Part, Round
from weft.sparse.task import Task


def check_power_of_two(workers: int) -> None:
    if workers & (workers - 1):
        raise InputError(f"gtopk is for powers of two, not for {workers} workers: use spardl, which takes any number")


def gtopk(task: Task) -> Part[Pairs]:
    """As many elements as one worker selects; what is dropped on the way up stays with whoever merged."""
    check_power_of_two(task.workers)
    span = (0, task.length)
    room = task.most_bytes([span], task.quota.kept(span))
    mine = task.selected(span)
    gap = 1
    while gap < task.workers and task.rank % (2 * gap) == 0:
        arrived = yield Round({}, {task.rank + gap: room})
        (theirs,) = task.opened(arrived[task.rank + gap], [span])
        mine = task.reduced(added(mine, theirs), span, None, holders=1)
        gap *= 2
    if task.rank:
        parent = task.rank - gap
        yield Round({parent: task.message([mine], [span])}, {})
        arrived = yield Round({}, {parent: room})
        (mine,) = task.opened(arrived[parent], [span])
    while gap > 1:
        gap //= 2
        yield Round({task.rank + gap: task.message([mine], [span])}, {})
    return mine
