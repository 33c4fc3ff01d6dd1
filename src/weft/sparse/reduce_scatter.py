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
from weft.sparse.rounds import Part, Round
from weft.sparse.task import Task


def spar_reduce_scatter(task: Task, team: Sequence[int], place: int, blocks: Blocks) -> Part[Pairs]:
    """What the team has in the block of this place, or its strongest elements."""
    count, nominal = len(team), blocks.nominal
    own = (0, 1)
    for (gap, size), (next_gap, next_size) in pairwise([*bags(count), own]):
        target, source = team[(place + gap) % count], team[(place - gap) % count]
        sent, expected = blocks.spans(place + gap, size), blocks.spans(place, size)
        bag = [task.selected(span, nominal) for span in sent]
        room = task.most_bytes(expected, sum(task.quota.kept(span, nominal) for span in expected))
        prepare_next = partial(task.prepare, blocks.spans(place + next_gap, next_size))
        arrived = yield Round({target: task.message(bag, sent)}, {source: room}, prepare_next)
        for pairs, span in zip(task.opened(arrived[source], expected), expected, strict=True):
            task.arrive(pairs, span)
    return task.selected(blocks.span(place), nominal)
