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
    gap = task.rank & -task.rank or task.workers
    children = [task.rank + (1 << level) for level in range(gap.bit_length() - 1)]
    parent = task.rank - gap
    ahead = [(other, room) for other in (children[1:] + [parent] * (task.rank > 0))]
    for child in children:
        arrived = yield Round({}, {child: room}, None, ahead)
        (theirs,) = task.opened(arrived[child], [span])
        mine = task.reduced(added(mine, theirs), span, None, holders=1)
        ahead = []
    if task.rank:
        yield Round({parent: task.message([mine], [span])}, {}, None, ahead)
        arrived = yield Round({}, {parent: room})
        (mine,) = task.opened(arrived[parent], [span])
    while gap > 1:
        gap //= 2
        yield Round({task.rank + gap: task.message([mine], [span])}, {})
    return mine
