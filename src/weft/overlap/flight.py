"""The launches of one step, compiled: when each bucket starts and ends.

An operation that is beside m - 1 others progresses at the rate at which it would if m ran at once all the time. Rates change
whenever one starts or ends, so the loop goes from one such event to the next. Where processors have both to do, computing is
slower while anything is on its way, and operations are slower while gradients are still being computed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled_in_place

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@compiled_in_place
def fly(
    ready: Floats,
    sizes: Floats,
    after: Longs,
    count: int,
    starting: Floats,
    per_byte: Floats,
    least: Floats,
    beside: Floats,
    start: Floats,
    end: Floats,
    flying: Longs,
    left: Floats,
) -> float:
    """Fill in when each of ``count`` buckets starts and ends; the last end.

    ``ready`` counts in time of computing; ``after`` is the bucket up to which each waits, or -1; ``starting``, ``per_byte``,
    ``least`` and ``beside`` are the model's arrays; ``flying`` and ``left`` are room for those on their way and what is left of
    each, from 1 to 0.
    """
    most = len(starting)
    pace, drag = beside[0], beside[1]
    whole_pass = ready[count - 1]
    now, last = 0.0, 0.0
    computed = 0.0  # of the backward pass
    up, following, ended, first = 0, 0, 0, 0  # ``first``: of those that have not ended
    for i in range(count):
        end[i] = np.inf
    while ended < count:
        while following < count and up < most and ready[following] <= computed:
            if after[following] >= first:
                break
            start[following] = now
            flying[up], left[up] = following, 1.0
            up += 1
            following += 1
        if up == 0:
            now += ready[following] - computed
            computed = ready[following]
            continue
        slower = drag if computed < whole_pass else 1.0
        step = np.inf
        for i in range(up):
            size = sizes[flying[i]]
            whole = slower * max(starting[up - 1] + per_byte[up - 1] * size, least[up - 1] * size)
            step = min(step, left[i] * whole)
        # The next thing to happen may be that a gradient is there, or that all are.
        mark = np.inf
        if up < most and following < count and ready[following] > computed:
            mark = ready[following]
        elif computed < whole_pass and slower > 1.0:
            mark = whole_pass
        waits = (mark - computed) / pace < step
        if waits:
            step = (mark - computed) / pace
            computed = mark
        else:
            computed = min(whole_pass, computed + pace * step)
        target = now + step
        kept = 0
        for i in range(up):
            size = sizes[flying[i]]
            whole = slower * max(starting[up - 1] + per_byte[up - 1] * size, least[up - 1] * size)
            remaining = left[i] - (step / whole if whole > 0 else 1.0)
            # What is left of the one that ends is nothing, up to rounding; those that end with it end with it.
            if remaining <= 1e-12 and not (waits and remaining > 0):
                end[flying[i]] = target
                ended += 1
            else:
                flying[kept], left[kept] = flying[i], remaining
                kept += 1
        while first < count and end[first] <= target:
            first += 1
        up = kept
        now = target
        last = now
    return last
