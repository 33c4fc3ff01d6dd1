"""Chakra traces: a schedule as the execution trace of one rank, for simulators that read MLCommons' format.

The format is that of mlcommons/chakra, ``schema/protobuf/et_def.proto``, framed as its ``src/third_party/utils/protolib.py``
does, with the attributes in the types that its ``src/feeder/et_feeder_node.cpp`` reads. A file has the global metadata and
then one node after the other, each message behind its length as a varint. The few kinds of fields that this needs are
encoded here, so that no protobuf library is necessary. By convention rank r's file is called ``<name>.<r>.et``.

The mapping. A transfer is a node COMM_SEND_NODE in its source's trace and COMM_RECV_NODE in its destination's, with
``comm_size`` in bytes, ``comm_src``, ``comm_dst`` and ``comm_tag``, which is the transfer's place in the list. A send depends on
the receives before it that last wrote the chunks that it carries; a receive on those that last wrote its chunks (rules 1
and 3 of a schedule). Transfers that are empty at this size are left out.

What is lost: the second rule, by which transfers from one worker to another travel one after the other; a simulator orders
them as it will. Adding takes no time: there are no compute nodes. A trace does not say whether a receive adds or replaces.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.dependencies import entries
from weft.errors import InputError
from weft.schedule import Longs, Schedule

VERSION = "0.0.4"
SEND, RECEIVE = 5, 6
"""COMM_SEND_NODE and COMM_RECV_NODE"""
_VARINT, _BYTES = 0, 2
"""wire types"""


def to_chakra(schedule: Schedule, rank: int, nbytes: int) -> bytes:
    """The trace of one rank when the schedule moves a tensor of so many bytes."""
    if not 0 <= rank < schedule.workers:
        raise InputError(f"rank {rank}: {schedule.name} has the ranks 0 to {schedule.workers - 1}")
    if nbytes < 1:
        raise InputError(f"a tensor of {nbytes} bytes is not possible: it must have at least 1")
    ends = schedule.boundaries(nbytes)
    sizes = ends[schedule.chunk + schedule.span] - ends[schedule.chunk]
    mine = np.flatnonzero(((schedule.source == rank) | (schedule.destination == rank)) & (sizes > 0))
    number = {t: i for i, t in enumerate(mine.tolist())}
    messages = [_text(1, VERSION)]
    for t, needed in _needed(schedule, rank, np.diff(ends), list(number)):
        sends = bool(schedule.source[t] == rank)
        messages.append(_node(number[t], schedule, t, int(sizes[t]), sends, [number[n] for n in needed]))
    return b"".join(_varint(len(message)) + message for message in messages)


def _needed(schedule: Schedule, rank: int, chunk_bytes: Longs, transfers: list[int]) -> Iterator[tuple[int, list[int]]]:
    """These transfers, each with the ones into the rank that it waits for: those that wrote its chunks last."""
    cut = entries(schedule)
    transfer_of = np.repeat(np.arange(len(schedule)), schedule.span)
    for t in transfers:
        # ``needs`` knows exchanges: the second does not wait for the first.
        cells, counts = (cut.read, cut.needs) if schedule.source[t] == rank else (cut.written, cut.turn)
        here = np.arange(cut.start[t], cut.start[t + 1])
        here = here[(counts[here] > 0) & (chunk_bytes[cells[here] % len(chunk_bytes)] > 0)]
        yield t, np.unique(transfer_of[cut.writes[cut.write_start[cells[here]] + counts[here] - 1]]).tolist()


def _node(identity: int, schedule: Schedule, t: int, size: int, sends: bool, needed: list[int]) -> bytes:
    transfer = schedule[t]
    attributes = [
        _attribute("is_cpu_op", 27, 0),
        _attribute("comm_size", 9, size),
        _attribute("comm_src", 7, transfer.source),
        _attribute("comm_dst", 7, transfer.destination),
        _attribute("comm_tag", 7, t),
    ]
    return b"".join(
        [
            _number(1, identity),
            _text(2, f"{'send' if sends else 'receive'} {transfer}"),
            _number(3, SEND if sends else RECEIVE),
            _chunk(5, b"".join(map(_varint, needed))) if needed else b"",
            *(_chunk(10, attribute) for attribute in attributes),
        ]
    )


def _attribute(name: str, field: int, value: int) -> bytes:
    """An attribute whose value is in the field of its type: 7 int32, 9 int64, 27 bool."""
    return _text(1, name) + _number(field, value)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _chunk(field, value.encode())


def _chunk(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; a set high bit says that more follow."""
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)
