"""The strongest elements: exactly the k of largest magnitude, of equal ones those with the lowest indexes, never a zero.

A sample says above which magnitude a little more than k elements lie. One pass collects those. If there are at least k, the k
strongest are among them, and choosing among so few is cheap: the sample decides how long it takes, never what comes out.
From call to call that magnitude changes little, so what it was in the last one saves the sample, and most of the pass: see
``watch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.compiled import compiled_in_place
from weft.sparse.kth import kth_strongest
from weft.sparse.marking import EIGHT, Marks, put_down, scratch
from weft.sparse.pairs import NOTHING, Indexes, Pairs, Values

if TYPE_CHECKING:
    from weft.sparse.watch import Watch

SMALL = 8192
"""Up to so many elements all are looked at."""
SAMPLED_PART = 64
"""Of so many elements one is in the sample ..."""
LEAST_SAMPLED, MOST_SAMPLED = 4096, 65536
"""... which has at least and at most so many."""
CAUTION = 3.0
"""By how many standard deviations more than k elements are expected above the first threshold."""


def strongest(
    flat: Values, start: int, stop: int, k: int, watch: Watch | None = None, changed: Sequence[Pairs] = ()
) -> Pairs:
    """The k strongest elements of ``flat[start:stop]``, fewer if fewer are not zero; none of them may be infinite or NaN.

    A watch may have put some aside, before these places were changed.
    """
    length = stop - start
    if k <= 0 or length <= 0:
        return NOTHING
    if length > SMALL and k < length // 4:
        found = None if watch is None else watch.above(flat, (start, stop), changed)
        if found is None or len(found) < k:
            found = _above_sampled(flat, start, stop, k)
        if found is not None:
            kept = strongest_pairs(found, k)[0]
            if watch is not None:
                watch.kept((start, stop), kept)
            return kept
    part = flat[start:stop]
    magnitude = np.abs(part)
    least = 0.0 if k >= length else kth_strongest(part, k)
    index = np.flatnonzero(magnitude >= least if least > 0 else magnitude > 0)
    return strongest_pairs(Pairs((index + start).astype(np.int32), part[index]), k)[0]


def strongest_pairs(pairs: Pairs, k: int) -> tuple[Pairs, Pairs]:
    """The k strongest of these, and the rest."""
    count = len(pairs)
    if count <= k:
        return pairs, NOTHING
    if k <= 0:
        return NOTHING, pairs
    least = kth_strongest(pairs.value, k)
    # One more than needed: an element is written to both, and only one of them goes on.
    kept = Pairs(np.empty(k + 1, np.int32), np.empty(k + 1, np.float32))
    rest = Pairs(np.empty(count - k + 1, np.int32), np.empty(count - k + 1, np.float32))
    _divide(pairs.index, pairs.value, k, np.float32(least), kept.index, kept.value, rest.index, rest.value)
    return Pairs(kept.index[:k], kept.value[:k]), Pairs(rest.index[:-1], rest.value[:-1])


def elements_above(flat: Values, start: int, stop: int, threshold: float, most: int) -> Pairs | None:
    """All elements of ``flat[start:stop]`` of at least this magnitude, unless they are more than ``most`` or it is zero."""
    if not threshold > 0:
        return None
    index, value = np.empty(most + EIGHT, np.int32), np.empty(most + EIGHT, np.float32)
    count = _collect(flat, start, stop, np.float32(threshold), index, value, *scratch())
    return Pairs(index[:count], value[:count]) if count <= most else None


def _above_sampled(flat: Values, start: int, stop: int, k: int) -> Pairs | None:
    """All elements above a threshold that a sample suggests, at least k; None if two samples' suggestions fail."""
    length = stop - start
    size = min(max(length // SAMPLED_PART, LEAST_SAMPLED), MOST_SAMPLED)
    sample = np.ascontiguousarray(flat[start : stop : length // size])
    expected = k * len(sample) / length
    for caution in (CAUTION, 4 * CAUTION):
        rank = min(int(expected + caution * np.sqrt(expected) + caution), len(sample) - 1)
        threshold = kth_strongest(sample, rank + 1)
        if not threshold > 0:
            return None
        found = elements_above(flat, start, stop, threshold, int(2 * (rank + 1) / len(sample) * length) + 1024)
        if found is not None and len(found) >= k:
            return found
    return None


@compiled_in_place
def _collect(
    flat: Values, start: int, stop: int, threshold: np.float32, index: Indexes, value: Values, marks: Marks, full: Marks
) -> int:
    """Put down all elements of at least this magnitude; more than there is room for are counted no further.

    A stretch is marked without any branch, so that the compiler does many at once. Parts of arrays are indexed from 0 on, which
    tells it that no index counts from the end.
    """
    found = 0
    whole = flat[start:stop]
    for at in range(0, len(whole), len(marks)):
        part = whole[at : at + len(marks)]
        for i in range(len(part)):
            marks[i] = abs(part[i]) >= threshold
        found = put_down(part, marks, full, start + at, index, value, found)
        if found > len(index) - EIGHT:
            return found
    return found


@compiled_in_place
def _divide(
    index: Indexes,
    value: Values,
    k: int,
    least: np.float32,
    kept: Indexes,
    kept_value: Values,
    rest: Indexes,
    rest_value: Values,
) -> None:
    """The k-th strongest has magnitude ``least``: keep all above, and of those that equal it the first ones. Without branches."""
    equal = k
    for i in range(len(value)):
        equal -= abs(value[i]) > least
    a = b = 0
    for i in range(len(value)):
        strength = abs(value[i])
        ties = strength == least
        keep = (strength > least) | (ties & (equal > 0))
        equal -= ties & keep
        kept[a], kept_value[a] = index[i], value[i]
        rest[b], rest_value[b] = index[i], value[i]
        a += keep
        b += not keep
