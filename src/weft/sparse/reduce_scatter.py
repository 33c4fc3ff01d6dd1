"""Spar-Reduce-Scatter: any number of workers, one message a round, and nobody sends more than the quota of a block.

Blocks that stay are kept dense, so what arrives is added where it belongs and nothing is selected that is not sent next. Nor is
anything added up before: while a round's blocks are on their way, those of the next one are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from weft.sparse.blocks import Blocks, bags
from weft.sparse.pairs import Pairs
from weft.sparse.rounds import Part, Receives, Round
from weft.sparse.task import Task
from weft.sparse.wire import Span


def spar_reduce_scatter(
    task: Task, team: Sequence[int], place: int, blocks: Blocks, ahead: Receives = ()
) -> Part[Pairs]:
    """What the team has in the block of this place, or its strongest elements. ``ahead``: what is expected after it."""
    count, nominal = len(team), blocks.nominal
    own = (0, 1)
    receives = [
        _receive(task, team[(place - gap) % count], blocks.spans(place, size), nominal) for gap, size in bags(count)
    ]
    ahead = [*receives[1:], *ahead]
    for ((gap, size), (next_gap, next_size)), (source, room) in zip(
        pairwise([*bags(count), own]), receives, strict=True
    ):
        target = team[(place + gap) % count]
        sent, expected = blocks.spans(place + gap, size), blocks.spans(place, size)
        bag = [task.selected(span, nominal) for span in sent]
        prepare_next = partial(task.prepare, blocks.spans(place + next_gap, next_size))
        arrived = yield Round({target: task.message(bag, sent)}, {source: room}, prepare_next, ahead)
        ahead = []
        for pairs, span in zip(task.opened(arrived[source], expected), expected, strict=True):
            task.arrive(pairs, span)
    return task.selected(blocks.span(place), nominal)


def _receive(task: Task, source: int, expected: Sequence[Span], nominal: int) -> tuple[int, int]:
    return source, task.most_bytes(expected, sum(task.quota.kept(span, nominal) for span in expected))
