"""Pairs: the sparse form of a vector, its indexes in ascending order with a value each; sums of them are never made dense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled_in_place

Indexes = NDArray[np.int32]
Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Indexes, strictly ascending, and their values."""

    index: Indexes
    value: Values

    def __len__(self) -> int:
        return len(self.index)

    def within(self, start: int, stop: int) -> Pairs:
        """Those with indexes from ``start`` on and before ``stop``."""
        # As numbers of the same kind, or all indexes would be converted.
        first, last = np.searchsorted(self.index, np.array((start, stop), np.int32))
        return Pairs(self.index[first:last], self.value[first:last])

    def copy(self) -> Pairs:
        return Pairs(self.index.copy(), self.value.copy())

    def divided(self, divisor: int) -> Pairs:
        if divisor == 1:
            return self
        return Pairs(self.index, self.value / np.float32(divisor))

    def dense(self, length: int) -> Values:
        """The vector, zero elsewhere."""
        flat = np.zeros(length, np.float32)
        scatter(flat, self)
        return flat


def scatter(flat: Values, pairs: Pairs) -> None:
    """Write the values to where they belong."""
    _scatter(flat, pairs.index, pairs.value)


@compiled_in_place
def _scatter(flat: Values, index: Indexes, value: Values) -> None:
    for i in range(len(index)):
        flat[index[i]] = value[i]


NOTHING = Pairs(np.empty(0, np.int32), np.empty(0, np.float32))


def joined(parts: Sequence[Pairs]) -> Pairs:
    """One after the other: every part's indexes lie behind those of the parts before it."""
    parts = [part for part in parts if len(part)]
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    return Pairs(np.concatenate([part.index for part in parts]), np.concatenate([part.value for part in parts]))


def added(a: Pairs, b: Pairs) -> Pairs:
    """The sum, with all indexes of both. ``added(a, b)`` and ``added(b, a)`` are the same to the bit."""
    if not len(a) or not len(b):
        return a if len(a) else b
    index, value = np.empty(len(a) + len(b), np.int32), np.empty(len(a) + len(b), np.float32)
    count = _merge(a.index, a.value, b.index, b.value, index, value)
    return Pairs(index[:count], value[:count])


def added_up(parts: Sequence[Pairs]) -> Pairs:
    """The sum of many, always by the same tree: the first half of the list with the second, and so on."""
    parts = list(parts) or [NOTHING]
    while len(parts) > 1:
        parts = [added(*parts[i : i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]


@compiled_in_place
def _merge(ai: Indexes, av: Values, bi: Indexes, bv: Values, index: Indexes, value: Values) -> int:
    i = j = out = 0
    while i < len(ai) and j < len(bi):
        if ai[i] < bi[j]:
            index[out], value[out] = ai[i], av[i]
            i += 1
        elif bi[j] < ai[i]:
            index[out], value[out] = bi[j], bv[j]
            j += 1
        else:
            index[out], value[out] = ai[i], av[i] + bv[j]
            i += 1
            j += 1
        out += 1
    while i < len(ai):
        index[out], value[out] = ai[i], av[i]
        i += 1
        out += 1
    while j < len(bi):
        index[out], value[out] = bi[j], bv[j]
        j += 1
        out += 1
    return out


def is_in(index: Indexes, others: Indexes) -> NDArray[np.bool_]:
    """For each index whether it is among the others; both ascending."""
    found = np.empty(len(index), np.bool_)
    _mark(index, others, found)
    return found


@compiled_in_place
def _mark(index: Indexes, others: Indexes, found: NDArray[np.bool_]) -> None:
    j = np.searchsorted(others, index[0]) if len(index) else 0
    for i in range(len(index)):
        while j < len(others) and others[j] < index[i]:
            j += 1
        found[i] = j < len(others) and others[j] == index[i]
