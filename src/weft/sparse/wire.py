"""Messages: one or more blocks of pairs, as bytes.

    16 bytes    version, number format, number of blocks; rank and element of a note, if there is one
    12 bytes    for every block: how many pairs, the coding of their indexes, the bytes of these
    values      of all blocks
    indexes     of all blocks, each relative to its block, see ``index_coding``

Everybody knows which blocks a message has, so their places are not in it. What arrives is checked: it may come from another
version, or from a rank that does something else.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.errors import ExecutionError
from weft.sparse.finite import Note
from weft.sparse.index_coding import EVERY, Bytes, coded, decoded
from weft.sparse.number_formats import FORMATS, NumberFormat, packed, unpacked, value_bytes
from weft.sparse.pairs import Pairs

VERSION = 1
Span = tuple[int, int]
"""a block: from where on, and before which index"""
_HEAD = struct.Struct("<BBHiq")
_BLOCK = struct.Struct("<IIB3x")
_NOBODY = -1


class MessageError(ExecutionError):
    """Bytes that are not the expected message."""


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """Bytes to send, and how many numbers they stand for: values, and their indexes where a block is not full."""

    data: Bytes
    elements: int


def encoded(blocks: Sequence[Pairs], spans: Sequence[Span], values: NumberFormat, note: Note | None) -> Message:
    """The message of these blocks, of which each lies in its span."""
    codings = [coded(block.index, start, stop - start) for block, (start, stop) in zip(blocks, spans, strict=True)]
    rank, index = (_NOBODY, 0) if note is None else (note.rank, note.index)
    head = [_HEAD.pack(VERSION, FORMATS.index(values), len(blocks), rank, index)]
    head += [_BLOCK.pack(len(block), len(data), coding) for block, (coding, data) in zip(blocks, codings, strict=True)]
    parts = [np.frombuffer(b"".join(head), np.uint8)]
    parts += [packed(block.value, values) for block in blocks]
    parts += [data for _, data in codings]
    numbers = [(1 if coding == EVERY else 2) * len(block) for block, (coding, _) in zip(blocks, codings, strict=True)]
    return Message(np.concatenate(parts), sum(numbers))


def most_bytes(spans: Sequence[Span], pairs: int, values: NumberFormat) -> int:
    """What a message of so many pairs in these blocks takes at most."""
    return _HEAD.size + len(spans) * _BLOCK.size + pairs * (value_bytes(values) + 4)


def decode(data: Bytes, spans: Sequence[Span]) -> tuple[list[Pairs], Note | None]:
    """The blocks of a message and its note."""
    data = data.view()
    data.flags.writeable = False  # one kind of array is compiled for once
    try:
        return _decode(data, spans)
    except (struct.error, ValueError, IndexError) as problem:
        raise MessageError(f"a message of {len(data)} bytes is cut short or malformed: {problem}") from problem


def _decode(data: Bytes, spans: Sequence[Span]) -> tuple[list[Pairs], Note | None]:
    version, kind, count, rank, index = _HEAD.unpack_from(data.data)
    if version != VERSION or kind >= len(FORMATS):
        raise MessageError(f"a message of version {version}: this Weft reads version {VERSION}; use one on all ranks")
    if count != len(spans):
        raise MessageError(f"a message has {count} blocks where {len(spans)} were expected")
    table = [_BLOCK.unpack_from(data.data, _HEAD.size + i * _BLOCK.size) for i in range(count)]
    form: NumberFormat = FORMATS[kind]
    width = value_bytes(form)
    at = _HEAD.size + count * _BLOCK.size
    places = at + width * sum(pairs for pairs, _, _ in table)
    if places + sum(size for _, size, _ in table) != len(data):
        raise MessageError(f"a message has {len(data)} bytes, but its head speaks of another number")
    blocks = []
    for (pairs, size, coding), (start, stop) in zip(table, spans, strict=True):
        found = decoded(data[places : places + size], coding, pairs, start, stop - start)
        if found is None:
            raise MessageError(
                f"a message has indexes that are not ascending, or not from {start} on and before {stop}"
            )
        blocks.append(Pairs(found, unpacked(data[at : at + width * pairs], form)))
        at, places = at + width * pairs, places + size
    return blocks, None if rank == _NOBODY else Note(rank, index)
