"""What happens when a rank dies, hangs, is late, is cut off, or means something else. All ranks in one process."""

from __future__ import annotations

import math
import time

import pytest
import torch

from ranks import communicators, on_every_rank
from weft.collectives import COLLECTIVES, butterfly, ring
from weft.errors import AgreementError, ExecutionError, InputError, PeerError
from weft.network import full_mesh
from weft.runtime import Deadlines, Faults
from weft.runtime.reports import Report, Wait, findings

RING = ring(full_mesh(4)).segmented(2)
DEADLINE = 1.6


def failures(faults: dict[int, Faults], name: str = "ring", timeout: float = DEADLINE) -> list[PeerError | None]:
    """What every rank raises in an all-reduce of four, of which some have faults; none may take longer than the deadline."""
    schedule = COLLECTIVES[name](full_mesh(4)).segmented(2)
    took = [0.0] * 4
    with communicators(4, faults) as everybody:

        def work(rank: int) -> None:
            begun = time.monotonic()
            try:
                everybody[rank].launch(schedule, torch.ones(40), timeout=timeout, here=True).wait()
            finally:
                took[rank] = time.monotonic() - begun

        errors = on_every_rank(4, work)
    assert max(took) < timeout + 1.0, "the deadline has passed"  # a busy machine may add a little
    assert all(error is None or isinstance(error, PeerError) for error in errors), errors
    return [error if isinstance(error, PeerError) else None for error in errors]


@pytest.mark.parametrize("name", ["ring", "double-binary-tree", "butterfly", "halving-doubling"])
@pytest.mark.parametrize("how", ["hang", "die"])
def test_a_rank_that_hangs_or_dies_is_named_by_all_others(name: str, how: str) -> None:
    faults = Faults(hang_after=3) if how == "hang" else Faults(die_after=3)
    for rank, error in enumerate(failures({2: faults}, name)):
        assert error is not None
        if rank != 2:
            assert error.culprits == error.silent == (2,)
            assert "rank 2 does not answer" in str(error)
            assert any(peer == 2 for _, peer in error.waits), "nobody says that it waits for rank 2"


def test_the_error_says_who_waits_for_whom_for_which_chunk_and_since_when() -> None:
    error = failures({2: Faults(hang_after=0)})[3]
    assert error is not None
    assert "rank 3 waits for rank 2: chunk 4 (reduce), message 1 of that channel, for 0." in str(error)
    assert "cannot be used any more" in str(error)


def test_a_death_is_known_long_before_the_deadline() -> None:
    begun = time.monotonic()
    errors = failures({1: Faults(die_after=5)}, timeout=20)
    assert time.monotonic() - begun < 5
    assert all(error is not None for error in errors)


def test_a_lost_message_names_both_ends() -> None:
    errors = failures({1: Faults(drop=frozenset([2]))})
    assert all(error is not None and error.culprits == (1, 2) for error in errors)
    assert "rank 2 waits for what rank 1 has sent" in str(errors[0])


def test_a_rank_that_is_alive_but_does_not_join_is_named() -> None:
    with communicators(3) as everybody:
        schedule = ring(full_mesh(3))

        def both(rank: int) -> None:
            everybody[rank].launch(schedule, torch.ones(9), timeout=DEADLINE).wait()

        assert on_every_rank(3, both) == [None] * 3
        errors = on_every_rank(3, lambda rank: time.sleep(2 * DEADLINE) if rank == 1 else both(rank))
        for rank in (0, 2):
            error = errors[rank]
            assert isinstance(error, PeerError)
            assert error.culprits == error.not_joined == (1,)
            assert "rank 1 has not joined: it is alive, and has launched 1 of 2 executions" in str(error)
        with pytest.raises(PeerError, match="rank 1 has not joined"):
            both(1)


def test_a_rank_that_never_comes_is_named_when_agreeing() -> None:
    with communicators(3) as everybody:
        work = lambda rank: everybody[rank].launch(ring(full_mesh(3)), torch.ones(9), timeout=DEADLINE).wait()  # noqa: E731
        errors = on_every_rank(2, work)
    assert all(isinstance(error, PeerError) and error.culprits == (2,) for error in errors)
    assert any("not all ranks have joined" in str(error) for error in errors)


def test_after_a_failure_the_transport_says_so() -> None:
    with communicators(2, {1: Faults(hang_after=0)}) as everybody:
        schedule = ring(full_mesh(2))
        on_every_rank(2, lambda rank: everybody[rank].launch(schedule, torch.ones(4), timeout=0.3).wait())
        with pytest.raises(PeerError, match="cannot be used any more"):
            everybody[0].launch(schedule, torch.ones(4))


def test_everything_in_flight_fails_together_even_if_nobody_waits() -> None:
    with communicators(2, {1: Faults(hang_after=6)}) as everybody:
        schedule = ring(full_mesh(2))

        def work(rank: int) -> None:
            running = [everybody[rank].launch(schedule, torch.ones(4), timeout=0.6) for _ in range(3)]
            ends = time.monotonic() + 3
            while not all(one.done() for one in running) and time.monotonic() < ends:
                time.sleep(0.01)
            assert all(one.done() for one in running), "still in flight"
            for one in running[2:]:
                with pytest.raises(PeerError):
                    one.wait()

        assert on_every_rank(2, work) == [None, None]


@pytest.mark.parametrize("what", ["schedule", "size", "op", "weights"])
def test_ranks_that_mean_different_things_all_learn_of_both(what: str) -> None:
    other = butterfly(full_mesh(4))
    with communicators(4) as everybody:

        def work(rank: int) -> None:
            wrong = rank == 3
            everybody[rank].launch(
                other if wrong and what == "schedule" else RING,
                torch.ones(41 if wrong and what == "size" else 40),
                "sum" if wrong and what == "op" else "average",
                [1.0, 1.0, 1.0, 2.0] if wrong and what == "weights" else None,
            ).wait()

        errors = on_every_rank(4, work)
    for error in errors:
        assert isinstance(error, AgreementError)
        assert set(error.said) == {0, 1, 2, 3}
        assert "ranks 0, 1, 2: average of 40 float32" in str(error)
        assert RING.digest in str(error)
        assert what != "schedule" or other.digest in str(error)


def test_ranks_that_disagree_can_go_on_when_nothing_was_sent() -> None:
    with communicators(2) as everybody:
        schedule = ring(full_mesh(2))
        work = lambda rank: everybody[rank].launch(schedule, torch.ones(3 + rank)).wait()  # noqa: E731
        assert all(isinstance(error, AgreementError) for error in on_every_rank(2, work))
        again = lambda rank: everybody[rank].launch(schedule, torch.ones(3)).wait()  # noqa: E731
        assert on_every_rank(2, again) == [None, None]


def test_a_rank_that_needs_to_agree_meets_one_that_does_not() -> None:
    other = butterfly(full_mesh(4))
    with communicators(4) as everybody:
        work = lambda rank: everybody[rank].launch(RING, torch.ones(40), timeout=30).wait()  # noqa: E731
        assert on_every_rank(4, work) == [None] * 4
        begun = time.monotonic()
        odd = lambda rank: everybody[rank].launch(other if rank == 1 else RING, torch.ones(40), timeout=30).wait()  # noqa: E731
        errors = on_every_rank(4, odd)
        assert time.monotonic() - begun < 10
    for error in errors:
        assert isinstance(error, AgreementError)
        assert RING.digest in str(error)
        assert other.digest in str(error)


def test_the_deadline_follows_what_was_measured() -> None:
    deadlines = Deadlines(floor=1.0, first=60.0, factor=10.0)
    key = ("digest", 100)
    assert deadlines.allowed(key) == 60.0
    assert deadlines.allowed(key, predicted=30.0) == 300.0
    deadlines.took(key, 0.01)
    assert deadlines.allowed(key, predicted=30.0) == 1.0
    deadlines.took(key, 0.5)
    assert deadlines.allowed(key) == 5.0
    assert deadlines.allowed(("digest", 101)) == 60.0
    assert deadlines.term(key, 0.0, timeout=3.0).period == math.inf, "an explicit timeout asks nobody"
    assert deadlines.term(key, 0.0, timeout=3.0).limit < 3.0
    for _ in range(100):
        deadlines.took(key, 0.01)
    assert deadlines.allowed(key) == 1.0, "one slow execution is forgotten after a while"


def test_measured_times_set_the_deadline_of_the_next_execution() -> None:
    deadlines = Deadlines(floor=3.2, first=60.0, factor=1.0)
    with communicators(4, {1: Faults(hang_after=60)}, deadlines) as everybody:
        work = lambda rank: everybody[rank].launch(RING, torch.ones(40), here=True).wait()  # noqa: E731
        assert on_every_rank(4, work) == [None] * 4
        begun = time.monotonic()
        while not any(on_every_rank(4, work)):
            pass
        assert 1.0 < time.monotonic() - begun < 10, "the first deadline was used, or none"


def test_a_rank_that_is_late_but_alive_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    deadlines = Deadlines(floor=3.2, first=20.0, factor=1.0, late=20.0)
    with communicators(3, deadlines=deadlines) as everybody:
        schedule = ring(full_mesh(3))

        def work(rank: int) -> None:
            for elements in (9, 9, 10):  # the last one needs an agreement first
                if rank == 1 and everybody[rank].deadlines.allowed((schedule.digest, 36)) < 20:
                    time.sleep(2.6)
                everybody[rank].launch(schedule, torch.ones(elements)).wait()

        assert on_every_rank(3, work) == [None] * 3
    assert "rank 1 alive, but not there yet" in caplog.text


def test_a_rank_that_is_late_for_too_long_is_named() -> None:
    deadlines = Deadlines(floor=3.2, first=20.0, factor=1.0, late=3.4)
    with communicators(3, deadlines=deadlines) as everybody:
        work = lambda rank: everybody[rank].launch(ring(full_mesh(3)), torch.ones(9)).wait()  # noqa: E731
        assert on_every_rank(3, work) == [None] * 3
        begun = time.monotonic()
        errors = on_every_rank(2, work)
        assert 2.5 < time.monotonic() - begun < 8
        assert all(isinstance(error, PeerError) and error.not_joined == (2,) for error in errors)


def test_ranks_that_have_all_joined_and_do_not_get_on_have_failed() -> None:
    deadlines = Deadlines(floor=3.2, first=20.0, factor=1.0, late=30.0)
    with communicators(3, {0: Faults(drop=frozenset([9]))}, deadlines) as everybody:
        work = lambda rank: everybody[rank].launch(ring(full_mesh(3)), torch.ones(9)).wait()  # noqa: E731
        begun = time.monotonic()
        while not any(errors := on_every_rank(3, work)):
            pass
        assert time.monotonic() - begun < 10
        assert all(error is None or (isinstance(error, PeerError) and error.culprits == (0, 1)) for error in errors)


def test_a_board_that_hangs_does_not_keep_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines = Deadlines(floor=3.2, first=20.0, factor=1.0, late=30.0)
    with communicators(2, {1: Faults(hang_after=30)}, deadlines) as everybody:
        work = lambda rank: everybody[rank].launch(ring(full_mesh(2)), torch.ones(9)).wait()  # noqa: E731
        assert on_every_rank(2, work) == [None, None]
        monkeypatch.setattr(type(everybody[0].transport.board), "read", lambda *_: time.sleep(20))
        begun = time.monotonic()
        while not any(errors := on_every_rank(2, work)):
            pass
        assert time.monotonic() - begun < 10
    assert isinstance(errors[0], PeerError)
    assert "the store that the ranks share does not answer" in str(errors[0])


def test_reports_can_be_read_back() -> None:
    report = Report(3, 7, 7, "sum of 4", (Wait(1, 2, "chunk 5 (reduce)", 0.25, "its turn"),), {1: 4}, (2,))
    assert Report.parse(report.to_text()) == report


def test_an_unexpected_error_ends_all_ranks_and_is_told() -> None:
    with communicators(2) as everybody:
        transport = everybody[1].transport
        transport.receive = lambda *_: (_ for _ in ()).throw(MemoryError("no room"))  # type: ignore[method-assign]
        errors = on_every_rank(
            2, lambda rank: everybody[rank].launch(ring(full_mesh(2)), torch.ones(4), timeout=DEADLINE).wait()
        )
    assert all(isinstance(error, ExecutionError) for error in errors)
    assert "no room" in str(errors[1])


def test_faults_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="delay of -1"):
        Faults(delay=-1)


def stuck(rank: int, number: int | None, launched: int, peer: int | None = None, **sent: int) -> Report:
    """A rank in an execution that waits for the first message of a peer, and has sent so many to others (``to3=1``)."""
    waits = () if peer is None else (Wait(peer, 0, "chunk 0 (reduce)", 1.5),)
    return Report(rank, launched, number, "x", waits, {int(to[2:]): count for to, count in sent.items()}, ())


def test_who_is_ahead_does_not_blame_those_who_are_held_up_behind() -> None:
    """Rank 1 has ended execution 4 and waits in execution 5; the others are held up in 4 by what rank 2 has sent."""
    reports = {
        0: stuck(0, 4, 4, 3), 1: stuck(1, 5, 5, 0), 2: stuck(2, 4, 4, 1, to3=1), 3: stuck(3, 4, 4, 2),
    }  # fmt: skip
    for mine in reports.values():
        found = findings(mine, reports, 4)
        assert found.not_joined == ()
        assert set(found.cut) == {(2, 3), (1, 2)}, "rank 1 has ended this execution, so it has sent everything"
        assert found.culprits == (2,), "it is one end of both"


def test_of_one_channel_that_does_not_get_on_both_ends_are_named() -> None:
    reports = {0: stuck(0, 4, 4, 1), 1: stuck(1, 4, 4, 0, to0=1)}
    assert findings(reports[0], reports, 2).culprits == (0, 1)
