"""What all ranks do together besides executions: results, and what the others say when a rank is stopped, killed or late."""

from __future__ import annotations

import time
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import torch
import torch.distributed as dist

from processes import check_ranks
from ranks import communicators as communicators_of
from ranks import on_every_rank
from weft.errors import PeerError
from weft.runtime import Deadlines, communicators

SCRIPT = "together_rank.py"


def test_results_are_those_of_the_backend_in_any_group() -> None:
    check_ranks(SCRIPT, 3, "everything_is_there")


@pytest.mark.parametrize("where", ["stopped_before_a_barrier", "stopped_in_an_evaluation", "killed_at_a_barrier"])
def test_a_rank_that_is_stopped_or_killed_is_named_in_time(where: str) -> None:
    check_ranks(SCRIPT, 3, where, killed=True, seconds=60)


def test_a_rank_that_is_only_late_is_waited_for() -> None:
    check_ranks(SCRIPT, 3, "late_but_waited_for", seconds=60)


def test_a_group_without_a_cpu_backend_gets_one_companion_for_everything() -> None:
    check_ranks(SCRIPT, 2, "companion", seconds=90)


class NcclAlone:
    """What a group says whose only backend is NCCL's."""

    def _get_backend(self, device: torch.device) -> str:
        if device.type == "cpu":
            raise RuntimeError("No backend type associated with device type cpu")
        return "nccl"


def test_whether_a_group_needs_a_companion_is_read_from_its_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    group: Any = NcclAlone()
    made: list[tuple[list[int], dict[str, object]]] = []

    def new_group(ranks: list[int], **options: object) -> object:
        made.append((ranks, options))
        return "companion"

    monkeypatch.setattr(communicators, "_companions", WeakKeyDictionary())
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda _: [4, 6])
    monkeypatch.setattr(dist, "new_group", new_group)
    assert communicators.carrier(group, "cuda") is group
    assert not made
    companions: list[object] = [communicators.carrier(group), communicators.carrier(group)]
    assert companions == ["companion"] * 2
    assert made == [([4, 6], {"backend": "gloo", "use_local_synchronization": True})]


def test_where_nothing_was_measured_who_is_silent_is_asked_early_and_nothing_else_fails() -> None:
    term = Deadlines().term(("barrier", 0), 0.0, None)
    assert 20 < term.period < 30
    assert term.quiet > 500, "all have joined and nothing moves: that may be a large first exchange"
    assert term.limit > 1700


def vigils(kept: list[int], attending: list[int], seconds: float) -> list[Exception | None]:
    """What ranks raise that wait for so long, while some others answer."""
    with communicators_of(4, deadlines=Deadlines(floor=3.2, factor=1.0, asked=3.2)) as everybody:
        for rank in attending:
            everybody[rank].attend()

        def wait(rank: int) -> None:
            if rank not in kept:
                return
            with everybody[rank].vigil("something", peer=3):
                ends = time.monotonic() + seconds
                while time.monotonic() < ends and not everybody[rank].has_failed():
                    time.sleep(0.05)
            if everybody[rank].has_failed():
                raise everybody[rank].error()

        return on_every_rank(4, wait)


def test_ranks_that_wait_at_the_same_time_all_get_their_answers() -> None:
    assert vigils([0, 1, 2], [0, 1, 2, 3], 5.0) == [None] * 4


def test_who_is_silent_while_others_wait_for_something_is_named() -> None:
    errors = vigils([0, 1, 2], [0, 1, 2], 12.0)
    for error in errors[:3]:
        assert isinstance(error, PeerError)
        assert error.culprits == (3,)
        assert "waits for rank 3: something" in str(error)


def test_a_rank_that_was_left_out_is_not_missed() -> None:
    with communicators_of(3, deadlines=Deadlines(floor=3.2, factor=1.0, asked=3.2)) as everybody:
        everybody[0].attend()
        everybody[1].attend()
        everybody[0].leave_out(2)
        with everybody[0].vigil("something"):
            time.sleep(4.5)
        assert not everybody[0].has_failed()
        everybody[0].fail("enough")
        error = everybody[1].error() if everybody[1].has_failed(look=True) else None
    assert isinstance(error, PeerError)
    assert error.silent == ()
