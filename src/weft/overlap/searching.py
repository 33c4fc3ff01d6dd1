"""search: the fastest buckets that can be found, over merging and over how many are on their way at once.

Many simple arrangements are simulated, among them those of all other schedulers; the best of them are improved by small changes
(``improving``). So the result is never slower, on the step simulator, than any of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from weft.overlap.arrangement import Arrangement, arranged
from weft.overlap.asc import asc_wfbp
from weft.overlap.communication import CommunicationModel
from weft.overlap.flight import Floats
from weft.overlap.improving import Buckets, improve, new_buckets, problem_of, seconds_of
from weft.overlap.merging import fixed_size, mg_wfbp
from weft.overlap.workload import Workload

BUDGET_PER_TENSOR = 5_000
LEAST_BUDGET = 200_000
"""Buckets that are simulated while improving, in all: a quarter of a second for 1,000 gradients."""
IMPROVED = 4
"""How many arrangements are improved."""

Cuts = tuple[tuple[int, ...], tuple[int, ...]]
"""Ends and reaches."""


def search(workload: Workload, model: CommunicationModel, budget: int | None = None) -> Arrangement:
    """The best arrangement found with a budget of so many simulated buckets."""
    budget = budget or max(LEAST_BUDGET, BUDGET_PER_TENSOR * len(workload.tensors))
    ready, sizes = workload.ready, workload.sizes
    problem = problem_of(ready, sizes, *model.arrays())
    bound = max(float(ready[-1]) + model.a, float(ready[0]) + model.a + model.least_per_byte * workload.nbytes)
    rooms = [new_buckets(len(ready)) for _ in range(3)]
    found: dict[Cuts, float] = {}
    for cuts in _simple(workload, model):
        if cuts not in found:
            found[cuts] = seconds_of(problem, _filled(rooms[0], cuts))
    first = sorted(found, key=lambda cuts: (found[cuts], len(cuts[0])))[:IMPROVED]
    best, best_seconds = first[0], found[first[0]]
    for cuts in first:
        buckets = _filled(rooms[0], cuts)
        seconds = improve(problem, buckets, rooms[1], rooms[2], budget // len(first), bound)
        if seconds < best_seconds:
            best, best_seconds = _cuts(buckets), seconds
    return arranged(workload.order, *best)


def _filled(buckets: Buckets, cuts: Cuts) -> Buckets:
    count = len(cuts[0])
    buckets.number[0] = count
    buckets.ends[:count], buckets.reach[:count] = cuts
    return buckets


def _cuts(buckets: Buckets) -> Cuts:
    count = int(buckets.number[0])
    return tuple(buckets.ends[:count].tolist()), tuple(buckets.reach[:count].tolist())


def _simple(workload: Workload, model: CommunicationModel) -> Iterator[Cuts]:
    """What the other schedulers make, and even cuts by bytes, by time and by number; all with every reach."""
    place = {parameter: i for i, parameter in enumerate(workload.order)}
    for arrangement in (asc_wfbp(workload, model), mg_wfbp(workload, model), fixed_size(workload, model)):
        ends = tuple(1 + max(place[p] for p in rule.parameters) for rule in arrangement.buckets)
        yield ends, tuple(_reach(i, rule.after) for i, rule in enumerate(arrangement.buckets))
        yield from _with_reaches(ends, model.together)
    count = len(workload.tensors)
    measures: list[Floats] = [np.cumsum(workload.sizes), workload.ready, np.arange(1.0, count + 1)]
    pieces = sorted({round(1.3**n) for n in range(64)} | {count})
    for number in (n for n in pieces if n <= count):
        for measure in measures:
            yield from _with_reaches(_even(measure, number), model.together)


def _reach(number: int, after: int | None) -> int:
    return number + 1 if after is None else number - after


def _with_reaches(ends: tuple[int, ...], together: int) -> Iterator[Cuts]:
    for reach in range(1, min(together, len(ends)) + 1):
        yield ends, (reach,) * len(ends)


def _even(measure: Floats, pieces: int) -> tuple[int, ...]:
    """Ends of so many pieces, or fewer, that hold about the same of the measure."""
    marks: Sequence[float] = (measure[-1] * np.arange(1, pieces) / pieces).tolist()
    ends = {int(end) for end in np.searchsorted(measure, marks, side="left") + 1}
    return (*sorted(end for end in ends if end < len(measure)), len(measure))
