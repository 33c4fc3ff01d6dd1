"""Spar-Reduce-Scatter: any number of workers, one message a round, and nobody sends more than the quota of a block.

Blocks that stay are kept dense, so what arrives is added where it belongs and nothing is selected that is not sent next. Nor is
anything added up before: what is not sent in the first round is, while that is on its way.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.sparse.blocks import Blocks, bags
from weft.sparse.pairs import Pairs
from weft.sparse.rounds import Part, Round
from weft.sparse.task import Task


def spar_reduce_scatter(task: Task, team: Sequence[int], place: int, blocks: Blocks) -> Part[Pairs]:
    """What the team has in the block of this place, or its strongest elements."""
    count, nominal = len(team), blocks.nominal
    for gap, size in bags(count):
        target, source = team[(place + gap) % count], team[(place - gap) % count]
        sent, expected = blocks.spans(place + gap, size), blocks.spans(place, size)
        bag = [task.selected(span, nominal) for span in sent]
        room = task.most_bytes(expected, sum(task.quota.kept(span, nominal) for span in expected))
        arrived = yield Round({target: task.message(bag, sent)}, {source: room}, task.complete)
        task.complete()
        for pairs in task.opened(arrived[source], expected):
            task.ledger.add(pairs)
    return task.selected(blocks.span(place), nominal)
