"""Chakra traces, decoded again by a small reader of the wire format, and run by a small simulator of sends and receives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from weft import InputError, Schedule, Transfer
from weft.chakra import to_chakra
from weft.collectives import COLLECTIVES, butterfly, parameter_server, ring
from weft.network import full_mesh


@dataclass(frozen=True)
class Node:
    identity: int
    name: str
    sends: bool
    needs: tuple[int, ...]
    attributes: dict[str, tuple[int, int]]
    """field and value by name"""

    def value(self, name: str) -> int:
        return self.attributes[name][1]


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            assert at + value <= len(data)
            yield key >> 3, data[at : at + value]
            at += value
        else:
            assert key & 7 == 0
            yield key >> 3, value


def messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length, at = varint(data, at)
        assert at + length <= len(data)
        yield data[at : at + length]
        at += length


def numbers(data: bytes) -> tuple[int, ...]:
    found, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return tuple(found)


def decoded(data: bytes) -> list[Node]:
    first, *rest = messages(data)
    assert list(fields(first)) == [(1, b"0.0.4")]
    nodes = []
    for message in rest:
        single: dict[int, int | bytes] = {}
        attributes = {}
        for field, value in fields(message):
            if field == 10:
                assert isinstance(value, bytes)
                (one, name), (kind, content) = fields(value)
                assert one == 1
                assert isinstance(name, bytes)
                assert isinstance(content, int)
                attributes[name.decode()] = (kind, content)
            else:
                assert field not in single
                single[field] = value
        identity, title, needs = single[1], single[2], single.get(5, b"")
        assert isinstance(identity, int)
        assert isinstance(title, bytes)
        assert isinstance(needs, bytes)
        assert single[3] in (5, 6)
        nodes.append(Node(identity, title.decode(), single[3] == 5, numbers(needs), attributes))
    return nodes


def finished(traces: list[list[Node]]) -> dict[tuple[int, int], int]:
    """Run all ranks: a node starts when what it needs is done, a receive ends when its message is there."""
    done: list[set[int]] = [set() for _ in traces]
    sent: dict[tuple[int, int, int], int] = {}
    moved: dict[tuple[int, int], int] = defaultdict(int)
    progress = True
    while progress:
        progress = False
        for rank, nodes in enumerate(traces):
            for node in nodes:
                key = node.value("comm_src"), node.value("comm_dst"), node.value("comm_tag")
                arrived = node.sends or sent.get(key) == node.value("comm_size")
                if node.identity not in done[rank] and set(node.needs) <= done[rank] and arrived:
                    assert rank == key[0 if node.sends else 1]
                    if node.sends:
                        assert key not in sent
                        sent[key] = node.value("comm_size")
                        moved[key[:2]] += sent[key]
                    done[rank].add(node.identity)
                    progress = True
    assert [len(one) for one in done] == [len(nodes) for nodes in traces]
    return moved


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("workers", [2, 3, 6])
def test_the_traces_of_all_ranks_end_and_move_what_the_schedule_moves(name: str, workers: int) -> None:
    schedule = COLLECTIVES[name](full_mesh(workers)).segmented(2)
    nbytes = 999_983
    moved = finished([decoded(to_chakra(schedule, rank, nbytes)) for rank in range(workers)])
    cuts = schedule.boundaries(nbytes).tolist()
    expected: dict[tuple[int, int], int] = defaultdict(int)
    for t in schedule:
        expected[t.source, t.destination] += cuts[t.chunk + t.span] - cuts[t.chunk]
    assert moved == expected


def test_a_node_has_the_fields_that_the_feeder_reads() -> None:
    nodes = decoded(to_chakra(ring(full_mesh(3)), 1, 3_000_000_000))
    assert [node.identity for node in nodes] == list(range(8))
    # Fields of the value: 7 is int32, 9 int64, 27 bool.
    assert nodes[0] == Node(
        0,
        "receive 0>1 reduce 0",
        False,
        (),
        {"is_cpu_op": (27, 0), "comm_size": (9, 10**9), "comm_src": (7, 0), "comm_dst": (7, 1), "comm_tag": (7, 0)},
    )
    assert (nodes[1].name, nodes[1].sends, nodes[1].needs) == ("send 1>2 reduce 1", True, ())


def test_a_send_waits_for_what_it_carries_and_a_receive_for_the_one_before() -> None:
    lines = ["1>0 reduce 0-1", "2>0 reduce 1", "0>1 copy 0", "0>2 copy 0-1", "0>1 copy 1"]
    schedule = Schedule.parse("weft schedule 1\nworkers 3\nchunks 1 1\n" + "\n".join(lines) + "\n")
    assert [node.needs for node in decoded(to_chakra(schedule, 0, 10))] == [(), (0,), (0,), (0, 1), (1,)]
    assert [node.needs for node in decoded(to_chakra(schedule, 1, 10))] == [(), (), ()]


def test_neither_side_of_an_exchange_waits_for_the_other() -> None:
    for rank in (0, 1):
        assert [node.needs for node in decoded(to_chakra(butterfly(full_mesh(2)), rank, 100))] == [(), ()]
    nodes = decoded(to_chakra(butterfly(full_mesh(4)), 0, 100))
    assert [(node.name, node.needs) for node in nodes] == [
        ("send 0>1 reduce 0", ()),
        ("receive 1>0 reduce 0", ()),
        ("send 0>2 reduce 0", (1,)),
        ("receive 2>0 reduce 0", (1,)),
    ]


def test_transfers_of_nothing_are_left_out() -> None:
    assert len(decoded(to_chakra(parameter_server(full_mesh(4)), 0, 1))) < 12
    finished([decoded(to_chakra(parameter_server(full_mesh(4)), rank, 1)) for rank in range(4)])
    empty = Schedule.of_transfers(2, [0, 1], [Transfer(0, 1, 0, "reduce", 2), Transfer(1, 0, 0, "copy", 2)])
    assert [node.needs for node in decoded(to_chakra(empty, 1, 8))] == [(), (0,)]
    lines = ["1>0 reduce 0", "1>0 reduce 1", "0>1 copy 0-1"]
    apart = Schedule.parse("weft schedule 1\nworkers 2\nchunks 0 1\n" + "\n".join(lines) + "\n")
    assert [node.needs for node in decoded(to_chakra(apart, 0, 8))] == [(), (0,)]


def test_relays_have_traces_too() -> None:
    lines = ["0>1 reduce 0", "1>2 reduce 0", "2>1 copy 0", "1>0 copy 0"]
    schedule = Schedule.parse("weft schedule 1\nworkers 3\nparticipants 0 2\nchunks 1\n" + "\n".join(lines) + "\n")
    traces = [decoded(to_chakra(schedule, rank, 64)) for rank in range(3)]
    assert finished(traces) == {(0, 1): 64, (1, 2): 64, (2, 1): 64, (1, 0): 64}
    assert [node.needs for node in traces[1]] == [(), (0,), (0,), (2,)]


@pytest.mark.parametrize(("rank", "nbytes"), [(-1, 8), (3, 8), (0, 0)])
def test_ranks_and_sizes_that_cannot_be_are_refused(rank: int, nbytes: int) -> None:
    with pytest.raises(InputError):
        to_chakra(ring(full_mesh(3)), rank, nbytes)
