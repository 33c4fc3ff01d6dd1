"""Pacing: which connections are slowed, to what, and when they are let go: real sockets, and times that the test gives."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from weft.collectives import ring
from weft.network import two_tier
from weft.planning import Costs, Plan
from weft.runtime import choosing
from weft.runtime.choosing import TURNS, Tried, paced
from weft.runtime.pacing import PART, Connection, Pacing, pacing_of
from weft.simulation import simulate

SO_MAX_PACING_RATE = 47
UNLIMITED = 0xFFFFFFFF
NETWORK = two_tier(2, 2, 1e6, uplink=5e5)
"""in bytes a second"""

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are listed on Linux only")  # noqa: PTH112


def plan(seconds: float = 1.0) -> Plan:
    schedule = ring(NETWORK)
    return Plan(NETWORK, 1000, schedule, "ring", 1, seconds, 1.0, "", schedule)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    with ours, theirs:
        yield ours, theirs


def connection_of(own: socket.socket) -> Connection:
    inode = os.readlink(f"/proc/self/fd/{own.fileno()}")  # noqa: PTH115
    return Connection(own.fileno(), inode, ("a", "b"))


def rate_of(own: socket.socket) -> int:
    rate: int = struct.unpack("=I", own.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 4))[0]
    return rate


def test_a_paced_plan_slows_its_connections_while_it_is_in_flight(pair: tuple[socket.socket, socket.socket]) -> None:
    to_next, to_another = pair
    pacing = Pacing(1, {2: [connection_of(to_next)], 3: [connection_of(to_another)]})
    assert not pacing.begin(plan().digest)
    pacing.adopt(plan())
    assert pacing.begin(plan().digest)
    assert pacing.begin(plan().digest)
    # Rank 1 sends to rank 2 alone, across the uplink.
    assert rate_of(to_next) == int(PART * 5e5)
    assert rate_of(to_another) == UNLIMITED
    pacing.end()
    assert rate_of(to_next) == int(PART * 5e5)
    pacing.end()
    assert rate_of(to_next) == UNLIMITED
    pacing.drop(plan())
    assert not pacing.begin(plan().digest)


def test_a_descriptor_that_is_another_file_by_now_is_left_alone(pair: tuple[socket.socket, socket.socket]) -> None:
    known = connection_of(pair[0])
    Connection(pair[1].fileno(), known.inode, known.ends).limit(1000)
    assert rate_of(pair[1]) == UNLIMITED
    known.limit(1000)
    assert rate_of(pair[0]) == 1000
    pair[0].close()
    known.limit(2000)


def test_ranks_find_each_other_by_the_ends_of_their_connections(
    monkeypatch: pytest.MonkeyPatch, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = ("{} {}".format(*one.getsockname()) for one in pair)

    def gathered(own: bytes, group: object) -> list[bytes]:
        assert group is None
        assert [ours, theirs] in json.loads(own)
        return [own, json.dumps([(theirs, ours)]).encode()]

    for name, answer in (("get_rank", 0), ("get_world_size", 2)):
        monkeypatch.setattr(dist, name, lambda _, answer=answer: answer)
    monkeypatch.setattr("weft.runtime.pacing.gathered", gathered)
    found = pacing_of()
    assert found is not None
    assert [connection.ends for connection in found._peers[1]] == [(ours, theirs)]


def test_without_connections_there_is_nothing_to_pace() -> None:
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    found = pacing_of()
    dist.destroy_process_group()
    assert found is None or not found._peers


class Remembers:
    """What is adopted and dropped."""

    def __init__(self) -> None:
        self.adopted = False

    def adopt(self, _: Plan) -> None:
        self.adopted = True

    def drop(self, _: Plan) -> None:
        self.adopted = False


@pytest.mark.parametrize(("held_back", "kept"), [(0.9, True), (0.995, False), (1.1, False)])
def test_a_plan_stays_paced_only_if_that_is_measured_to_be_faster(
    monkeypatch: pytest.MonkeyPatch, held_back: float, kept: bool
) -> None:
    us: Any = SimpleNamespace(pacing=Remembers(), transport=SimpleNamespace(keeps_tags_apart=True))
    monkeypatch.setattr(choosing, "_turn", lambda *_: held_back if us.pacing.adopted else 1.0)
    monkeypatch.setattr(choosing, "slowest", lambda *_: [0.0])
    best = paced(us, Tried(plan(), (1.0,)), Costs(unfairness=0.3))
    fair = simulate(plan().schedule, NETWORK, 1000).seconds
    assert best.plan.seconds == (pytest.approx(fair) if kept else 1.0)
    assert (best.paced, us.pacing.adopted) == (kept, kept)
    assert set(best.times) == {held_back if kept else 1.0}
    assert len(best.times) >= TURNS
    small = Tried(plan(0.001), (1.0,))
    assert paced(us, small, Costs()) is small
    us.transport.keeps_tags_apart = False
    best = Tried(plan(), (1.0,))
    assert paced(us, best, Costs()) is best
