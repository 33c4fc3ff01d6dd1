"""Better buckets by small changes, compiled: the inner loop of ``search``.

An arrangement is two lists: where each bucket ends in the order of gradients, and its reach (see ``arranged``). One change is
tried at a time, whole steps are simulated, and what is faster is kept, or what is as fast with fewer buckets. When nothing helps
any more, a few random changes are made to the best and it begins again, until the budget is used up: a number of simulated
buckets, so that a result never depends on the clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.compiled import compiled, compiled_in_place, compiled_inside
from weft.overlap.flight import Floats, Longs, fly

CLOSE = 1e-12
"""Relative differences below this are rounding."""


class Problem(NamedTuple):
    """When gradients come, bytes before each, the model, and room for one simulation; ``spent`` counts simulated buckets."""

    ready: Floats
    before: Floats
    starting: Floats
    per_byte: Floats
    least: Floats
    beside: Floats
    bucket_ready: Floats
    bucket_size: Floats
    after: Longs
    start: Floats
    end: Floats
    flying: Longs
    left: Floats
    spent: Longs


class Buckets(NamedTuple):
    """Ends and reaches of ``number[0]`` buckets, in lists that have room for one bucket a gradient."""

    ends: Longs
    reach: Longs
    number: Longs


def problem_of(
    ready: Floats, sizes: Floats, starting: Floats, per_byte: Floats, least: Floats, beside: Floats
) -> Problem:
    count, most = len(ready), len(starting)
    before = np.concatenate([[0.0], np.cumsum(sizes)])
    rooms = [np.empty(count) for _ in range(4)]
    return Problem(
        ready, before, starting, per_byte, least, beside, rooms[0], rooms[1], np.empty(count, dtype=np.int64), rooms[2], rooms[3],
        np.empty(most, dtype=np.int64), np.empty(most), np.zeros(1, dtype=np.int64),
    )  # fmt: skip


def new_buckets(size: int) -> Buckets:
    return Buckets(np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.int64), np.zeros(1, dtype=np.int64))


@compiled_in_place
def seconds_of(problem: Problem, buckets: Buckets) -> float:
    """When the last bucket has ended, from the start of the backward pass on."""
    count, begin = buckets.number[0], 0
    for i in range(count):
        stop = buckets.ends[i]
        problem.bucket_ready[i] = problem.ready[stop - 1]
        problem.bucket_size[i] = problem.before[stop] - problem.before[begin]
        problem.after[i] = max(-1, i - buckets.reach[i])
        begin = stop
    problem.spent[0] += count
    return fly(
        problem.bucket_ready, problem.bucket_size, problem.after, count, problem.starting, problem.per_byte,
        problem.least, problem.beside, problem.start, problem.end, problem.flying, problem.left,
    )  # fmt: skip


@compiled_in_place
def copy_buckets(source: Buckets, target: Buckets) -> None:
    count = source.number[0]
    target.number[0] = count
    for i in range(count):
        target.ends[i], target.reach[i] = source.ends[i], source.reach[i]


@compiled_inside
def _removed(buckets: Buckets, i: int) -> None:
    """Merge bucket i with the one after it."""
    count = buckets.number[0]
    for j in range(i, count - 1):
        buckets.ends[j] = buckets.ends[j + 1]
        buckets.reach[j] = buckets.reach[j + 1]
    buckets.number[0] = count - 1


@compiled_inside
def _inserted(buckets: Buckets, i: int, end: int, reach: int) -> None:
    """Cut bucket i at ``end``; its second half has the reach."""
    count = buckets.number[0]
    for j in range(count, i, -1):
        buckets.ends[j] = buckets.ends[j - 1]
        buckets.reach[j] = buckets.reach[j - 1]
    buckets.ends[i] = end
    buckets.reach[i + 1] = reach
    buckets.number[0] = count + 1


@compiled_inside
def _is_better(seconds: float, count: int, best: float, best_count: int) -> bool:
    return seconds < best * (1 - CLOSE) or (seconds <= best * (1 + CLOSE) and count < best_count)


@compiled_inside
def _best_reach(problem: Problem, buckets: Buckets, i: int, best: float) -> float:
    """Try every reach of bucket i and keep the best."""
    kept = buckets.reach[i]
    for reach in range(1, min(i + 1, len(problem.starting)) + 1):
        if reach != kept:
            buckets.reach[i] = reach
            seconds = seconds_of(problem, buckets)
            if seconds < best * (1 - CLOSE):
                best, kept = seconds, reach
    buckets.reach[i] = kept
    return best


@compiled_inside
def _best_end(problem: Problem, buckets: Buckets, i: int, best: float) -> float:
    """Move the boundary after bucket i, by steps that double as long as they help."""
    low = buckets.ends[i - 1] if i else 0
    for sign in (-1, 1):
        step = 1
        while True:
            old = buckets.ends[i]
            moved = old + sign * step
            if moved <= low or moved >= buckets.ends[i + 1]:
                break
            buckets.ends[i] = moved
            seconds = seconds_of(problem, buckets)
            if seconds < best * (1 - CLOSE):
                best = seconds
            else:
                buckets.ends[i] = old
            step *= 2
    return best


@compiled_inside
def _best_cut(problem: Problem, buckets: Buckets, i: int, best: float, cuts: int) -> float:
    """Cut bucket i in two, at one of a few places, if that helps."""
    low, high = buckets.ends[i - 1] if i else 0, buckets.ends[i]
    places = min(cuts, high - low - 1)
    best_place, best_reach, old = -1, 0, buckets.reach[i]
    for n in range(1, places + 1):
        place = low + n * (high - low) // (places + 1)
        for reach in (1, 2, len(problem.starting)):
            if reach > len(problem.starting) or place <= low or place >= high:
                continue
            _inserted(buckets, i, place, reach)
            seconds = seconds_of(problem, buckets)
            _removed(buckets, i)
            buckets.reach[i] = old
            if seconds < best * (1 - CLOSE):
                best, best_place, best_reach = seconds, place, reach
    if best_place >= 0:
        _inserted(buckets, i, best_place, best_reach)
    return best


@compiled_inside
def _climb(problem: Problem, buckets: Buckets, spare: Buckets, best: float, budget: int) -> float:
    """Pass over all buckets until nothing helps."""
    changed = True
    while changed and problem.spent[0] < budget:
        changed = False
        i = 0
        while i < buckets.number[0] and problem.spent[0] < budget:
            count, before = buckets.number[0], best
            if i + 1 < count:
                copy_buckets(buckets, spare)
                _removed(buckets, i)
                seconds = seconds_of(problem, buckets)
                if _is_better(seconds, count - 1, best, count):
                    best = seconds
                    changed = True
                    continue
                copy_buckets(spare, buckets)
                best = _best_end(problem, buckets, i, best)
            best = _best_reach(problem, buckets, i, best)
            best = _best_cut(problem, buckets, i, best, 15)
            changed = changed or best < before
            i += 1
    return best


@compiled_inside
def _disturb(problem: Problem, buckets: Buckets, state: int) -> int:
    """One to three random changes; the state of the random numbers after them."""
    changes = 1
    for change in range(4):
        state = (state * 6364136223846793005 + 1442695040888963407) & 0x7FFFFFFFFFFFFFFF
        draw = state >> 20
        if change == 0:
            changes = 1 + draw % 3
            continue
        if change > changes:
            break
        count = buckets.number[0]
        i = draw // 4 % count
        low, high = buckets.ends[i - 1] if i else 0, buckets.ends[i]
        kind = draw % 4
        if kind == 0 and i + 1 < count:
            _removed(buckets, i)
        elif kind == 1 and high - low > 1:
            _inserted(buckets, i, low + 1 + draw // 8 % (high - low - 1), 1 + draw // 16 % len(problem.starting))
        elif kind == 2 and i + 1 < count:
            buckets.ends[i] = low + 1 + draw // 8 % (buckets.ends[i + 1] - low - 1)
        else:
            buckets.reach[i] = 1 + draw // 8 % len(problem.starting)
    return state


@compiled
def improve(problem: Problem, buckets: Buckets, trial: Buckets, spare: Buckets, budget: int, bound: float) -> float:
    """Change ``buckets`` into faster ones; how long they take. Ends early where the bound is reached."""
    problem.spent[0] = 0
    best = _climb(problem, buckets, spare, seconds_of(problem, buckets), budget)
    state = 1
    while problem.spent[0] < budget and best > bound * (1 + 1e-9):
        copy_buckets(buckets, trial)
        state = _disturb(problem, trial, state)
        seconds = _climb(problem, trial, spare, seconds_of(problem, trial), budget)
        if _is_better(seconds, trial.number[0], best, buckets.number[0]):
            best = seconds
            copy_buckets(trial, buckets)
    return best
