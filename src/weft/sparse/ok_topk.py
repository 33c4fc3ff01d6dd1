"""Ok-Topk (Li and Hoefler 2022): thresholds and regions that are kept for a while, and balanced messages.

Every 32 calls the thresholds are exact: the k-th strongest element of the worker's own vector, and of the sum. In between they
are reused and moved a little when too many or too few were above. Every 64 calls the vector is cut into regions, at the mean
of the places where each worker would cut it so that all have equally much to send. A region is added up at one worker,
which keeps what is above the global threshold; if one has much more than the others it hands some on; then all is gathered.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from weft.sparse.gathering import GATHERS, Gather, check_gather
from weft.sparse.number_formats import rounded
from weft.sparse.pairs import NOTHING, Pairs, joined
from weft.sparse.rounds import Part, Round
from weft.sparse.selection import elements_above
from weft.sparse.task import Task, as_message
from weft.sparse.topk_dsa import split
from weft.sparse.wire import Message, Span

EXACT_EVERY, CUT_EVERY = 32, 64
CORRECTION, LARGEST_CORRECTION = 0.15, 1.1
"""The power of the ratio of found to wanted by which a threshold moves, about right for normal tails, and how far at most."""
TOLERANCE = 2
"""So many times too many, or too few, make a threshold be found anew."""
BALANCED_ABOVE = 4.0
"""How many times the mean a worker may have before it hands some on."""


def ok_topk(task: Task, gather: Gather = "doubling", balanced_above: float = BALANCED_ABOVE) -> Part[Pairs]:
    """The sum where it is above the global threshold: about as many elements as one worker selects."""
    check_gather(gather)
    assert not task.quota.layers, "there is one threshold for the whole"
    memory = task.memory
    call = int(memory.get("calls", 0))
    memory["calls"] = call + 1
    wanted = task.quota.kept((0, task.length))
    chosen = _chosen(task, memory, wanted, exact=call % EXACT_EVERY == 0)
    if call % CUT_EVERY == 0 or "cuts" not in memory:
        memory["cuts"] = yield from _cuts(task, chosen, gather)
    spans = list(pairwise((0, *memory["cuts"], task.length)))
    total = yield from split(task, chosen, spans, TOLERANCE * wanted)
    if call % EXACT_EVERY == 0 or memory.get("global") is None:
        memory["global"] = yield from _global_threshold(task, total, wanted, spans, gather)
    kept = total if memory["global"] is None else _above(total, memory["global"])
    coarse = rounded(kept, task.values)
    task.ledger.leave(Pairs(kept.index, kept.value - coarse.value), 1.0)
    result = yield from _gathered(task, coarse, gather, balanced_above)
    memory["global"] = _moved(memory["global"], len(result), wanted)
    return result


def _chosen(task: Task, memory: dict[str, Any], wanted: int, exact: bool) -> Pairs:
    """What this worker sends: above its threshold, which is made exact if it does not fit any more."""
    threshold, span = memory.get("local"), (0, task.length)
    found = None if exact or threshold is None else _above_own(task, threshold, TOLERANCE * wanted)
    if found is None or TOLERANCE * len(found) < wanted:
        found = task.quota.strongest(task.flat, span)
        threshold = float(np.abs(found.value).min()) if len(found) else None
    memory["local"] = _moved(threshold, len(found), wanted)
    if memory["local"] is not None:
        task.watch.expect(span, memory["local"], TOLERANCE * wanted)
    coarse = rounded(found, task.values)
    task.ledger.send(coarse)
    return coarse


def _above_own(task: Task, threshold: float, most: int) -> Pairs | None:
    """All above its threshold, unless they are too many; most often they were put aside."""
    span = (0, task.length)
    if task.watch.expects(span, threshold, most):
        return task.watch.above(task.flat, span)
    return elements_above(task.flat, *span, threshold, most)


def _moved(threshold: float | None, found: int, wanted: int) -> float | None:
    """A little higher if too many were above it, a little lower if too few; nothing if it is too far off."""
    if threshold is None or found > TOLERANCE * wanted or TOLERANCE * found < wanted:
        return None
    factor = (found / wanted) ** CORRECTION if wanted else 1.0
    return threshold * min(LARGEST_CORRECTION, max(1 / LARGEST_CORRECTION, factor))


def _above(pairs: Pairs, threshold: float) -> Pairs:
    there = np.abs(pairs.value) >= np.float32(threshold)
    return Pairs(pairs.index[there], pairs.value[there])


def _cuts(task: Task, chosen: Pairs, gather: Gather) -> Part[list[int]]:
    """Where regions begin, but for the first."""
    if len(chosen):
        own = chosen.index[[len(chosen) * i // task.workers for i in range(1, task.workers)]].astype(np.int64)
    else:
        own = np.arange(1, task.workers, dtype=np.int64) * task.length // task.workers
    size = own.nbytes
    items = yield from GATHERS[gather](range(task.workers), task.rank, as_message(own), [size] * task.workers)
    proposals = np.stack([np.frombuffer(item.data.tobytes(), np.int64) for item in items])
    return [int(cut) for cut in proposals.sum(axis=0) // task.workers]


def _global_threshold(task: Task, total: Pairs, wanted: int, spans: list[Span], gather: Gather) -> Part[float | None]:
    """The magnitude of the k-th strongest element of the sum; None if it has fewer."""
    magnitude = np.abs(total.value)
    if len(magnitude) > wanted:
        magnitude = np.partition(magnitude, len(magnitude) - wanted)[-wanted:]
    most = [4 * min(wanted, span[1] - span[0]) for span in spans]
    items = yield from GATHERS[gather](range(task.workers), task.rank, as_message(magnitude), most)
    everything = np.concatenate([np.frombuffer(item.data.tobytes(), np.float32) for item in items])
    if len(everything) < wanted:
        return None
    return float(np.partition(everything, len(everything) - wanted)[len(everything) - wanted])


def _gathered(task: Task, mine: Pairs, gather: Gather, balanced_above: float) -> Part[Pairs]:
    """Everybody's pairs at everybody, after the longest lists were shared out."""
    everybody = range(task.workers)
    said = as_message(np.array([len(mine)], np.int64))
    sizes = yield from GATHERS[gather](everybody, task.rank, said, [8] * task.workers)
    counts = [int(np.frombuffer(item.data.tobytes(), np.int64)[0]) for item in sizes]
    if max(counts) * task.workers > balanced_above * sum(counts):
        mine, counts = yield from _balanced(task, mine, counts)
    span = (0, task.length)
    most = [task.most_bytes([span], count) for count in counts]
    items = yield from GATHERS[gather](everybody, task.rank, task.message([mine], [span]), most)
    return joined([task.opened(item.data, [span])[0] for item in items])


def _balanced(task: Task, mine: Pairs, counts: list[int]) -> Part[tuple[Pairs, list[int]]]:
    """All lists one behind the other, cut into equal parts: what goes from whom to whom everybody can tell."""
    whole, workers = sum(counts), task.workers
    has = np.concatenate([[0], np.cumsum(counts)])
    gets = [whole * i // workers for i in range(workers + 1)]

    def common(source: int, target: int) -> tuple[int, int]:
        return max(int(has[source]), gets[target]), min(int(has[source + 1]), gets[target + 1])

    span, first = (0, task.length), int(has[task.rank])
    sends: dict[int, Message] = {}
    receives: dict[int, int] = {}
    own = NOTHING
    for other in range(workers):
        start, stop = common(task.rank, other)
        part = Pairs(mine.index[start - first : stop - first], mine.value[start - first : stop - first])
        if other == task.rank:
            own = part if start < stop else NOTHING
            start, stop = 0, 0
        if start < stop:
            sends[other] = task.message([part], [span])
        start, stop = common(other, task.rank)
        if other != task.rank and start < stop:
            receives[other] = task.most_bytes([span], stop - start)
    arrived = (yield Round(sends, receives)) if sends or receives else {}
    parts = {other: task.opened(data, [span])[0] for other, data in arrived.items()} | {task.rank: own}
    return joined([parts[other] for other in sorted(parts)]), [b - a for a, b in pairwise(gets)]
