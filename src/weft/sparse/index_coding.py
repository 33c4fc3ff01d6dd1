"""Ascending indexes of a block as bytes, in whichever of a few codings takes the fewest.

Plain offsets take as many bytes as the block's length asks for, 2 where it is at most 65536. Gaps take one byte for each 255
of them, or two for each 65535: at a density of 1% that is 1.1 bytes an index. A block that is fuller than one in eight is
cheaper as a bit for every place, and a full one needs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled_in_place
from weft.sparse.pairs import Indexes

Bytes = NDArray[np.uint8]
PLAIN_1, PLAIN_2, PLAIN_3, PLAIN_4, GAPS_1, GAPS_2, BITS, EVERY = range(1, 9)


def coded(index: Indexes, start: int, length: int) -> tuple[int, Bytes]:
    """The coding, and the bytes of indexes that lie from ``start`` on in a block of so many places."""
    if len(index) == length:
        return EVERY, np.empty(0, np.uint8)
    width = plain_width(length)
    sizes = np.empty(2, np.int64)
    _gap_bytes(index, start, sizes)
    choices = ((width * len(index), width), (int(sizes[0]), GAPS_1), (int(sizes[1]), GAPS_2), ((length + 7) // 8, BITS))
    size, coding = min(choices)
    out = np.zeros(size, np.uint8)
    _write(index, start, coding, out)
    return coding, out


def decoded(data: Bytes, coding: int, count: int, start: int, length: int) -> Indexes | None:
    """The indexes, or None if these bytes are not so many ascending indexes of the block."""
    if coding == EVERY:
        return np.arange(start, start + length, dtype=np.int32) if count == length and not len(data) else None
    if not PLAIN_1 <= coding <= BITS or count > length:
        return None
    index = np.empty(count, np.int32)
    return index if _read(data, coding, start, length, index) else None


def plain_width(length: int) -> int:
    """Bytes of a plain offset into a block of so many places."""
    return max(1, ((max(1, length) - 1).bit_length() + 7) // 8)


@compiled_in_place
def _gap_bytes(index: Indexes, start: int, sizes: NDArray[np.int64]) -> None:
    following, one, two = start, 0, 0
    for i in range(len(index)):
        gap = index[i] - following
        one += 1 + gap // 255
        two += 2 + 2 * (gap // 65535)
        following = index[i] + 1
    sizes[0], sizes[1] = one, two


@compiled_in_place
def _write(index: Indexes, start: int, coding: int, out: Bytes) -> None:
    at, following = 0, start
    for i in range(len(index)):
        offset, gap = index[i] - start, index[i] - following
        following = index[i] + 1
        if coding <= PLAIN_4:
            for byte in range(coding):
                out[at + byte] = (offset >> (8 * byte)) & 255
            at += coding
        elif coding == GAPS_1:
            while gap >= 255:
                out[at] = 255
                at, gap = at + 1, gap - 255
            out[at] = gap
            at += 1
        elif coding == GAPS_2:
            while gap >= 65535:
                out[at] = out[at + 1] = 255
                at, gap = at + 2, gap - 65535
            out[at], out[at + 1] = gap & 255, gap >> 8
            at += 2
        else:
            out[offset >> 3] |= 1 << (offset & 7)


@compiled_in_place
def _read(data: Bytes, coding: int, start: int, length: int, index: Indexes) -> bool:
    if coding == BITS:
        return len(data) == (length + 7) // 8 and _read_bits(data, start, length, index)
    at, following = 0, 0
    for i in range(len(index)):
        offset: Any = 0
        gap: Any = 0
        if coding <= PLAIN_4:
            if at + coding > len(data):
                return False
            for byte in range(coding):
                offset |= np.int64(data[at + byte]) << (8 * byte)
            at += coding
        else:
            width, most = (1, 255) if coding == GAPS_1 else (2, 65535)
            offset, gap = following, most
            while gap == most:
                if at + width > len(data):
                    return False
                gap = np.int64(data[at]) if width == 1 else np.int64(data[at]) | np.int64(data[at + 1]) << 8
                offset += gap
                at += width
        if offset < following or offset >= length:
            return False
        index[i] = start + offset
        following = offset + 1
    return at == len(data)


@compiled_in_place
def _read_bits(data: Bytes, start: int, length: int, index: Indexes) -> bool:
    found = 0
    for offset in range(8 * len(data)):
        if data[offset >> 3] >> (offset & 7) & 1:
            if found == len(index) or offset >= length:
                return False
            index[found] = start + offset
            found += 1
    return found == len(index)
