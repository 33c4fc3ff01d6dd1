"""The magnitude of the k-th strongest number, exactly, in a few passes: counts tell in which class it is, the others are dropped.

Magnitudes of finite numbers are in the order of their bits, so classes are ranges of bits. The strongest of a sparse call
lie above a threshold, most of them close to it: two or three rounds do, where comparing them with each other takes four times
as long.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled_in_place
from weft.sparse.pairs import Values

CLASSES = 2048
FEW = 32
"""So many are sorted."""

_Bits = NDArray[np.uint32]
_WITHOUT_SIGN = np.uint32(0x7FFFFFFF)


def kth_strongest(values: Values, k: int) -> float:
    """Of finite numbers, at least k."""
    bits = np.empty(len(values), np.uint32)
    found = _kth(np.ascontiguousarray(values).view(np.uint32), k, bits, np.empty(CLASSES, np.int64))
    return float(np.uint32(found).view(np.float32))


@compiled_in_place
def _kth(given: _Bits, k: int, bits: _Bits, counts: NDArray[np.int64]) -> np.uint32:
    length = len(given)
    low, high = np.uint32(_WITHOUT_SIGN), np.uint32(0)
    for i in range(length):
        one = given[i] & _WITHOUT_SIGN
        bits[i] = one
        low, high = min(low, one), max(high, one)
    while length > FEW and low < high:
        shift = np.uint32(0)
        while (high - low) >> shift >= np.uint32(len(counts)):
            shift += np.uint32(1)
        counts[:] = 0
        for i in range(length):
            counts[(bits[i] - low) >> shift] += 1
        chosen = len(counts) - 1
        while counts[chosen] < k:
            k -= counts[chosen]
            chosen -= 1
        length, low, high = _of_class(bits, length, low, shift, chosen)
    return _sorted_out(bits, length, k)


@compiled_in_place
def _of_class(
    bits: _Bits, length: int, low: np.uint32, shift: np.uint32, chosen: int
) -> tuple[int, np.uint32, np.uint32]:
    """Those of one class come to the front: how many they are, the lowest and the highest."""
    found, lowest, highest = 0, np.uint32(_WITHOUT_SIGN), np.uint32(0)
    for i in range(length):
        one = bits[i]
        if (one - low) >> shift == chosen:
            bits[found] = one
            found += 1
            lowest, highest = min(lowest, one), max(highest, one)
    return found, lowest, highest


@compiled_in_place
def _sorted_out(bits: _Bits, length: int, k: int) -> np.uint32:
    """The k-th of few, or of many that are all the same."""
    if length > FEW:
        return np.uint32(bits[0])
    for i in range(1, length):
        one, j = bits[i], i
        while j > 0 and bits[j - 1] < one:
            bits[j] = bits[j - 1]
            j -= 1
        bits[j] = one
    return np.uint32(bits[k - 1])
