"""Probing with ranks as threads of one process, and what ``weft probe`` prints. Real networks are in test_probe_emulated."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from typing import Any

import pytest

from ranks import on_every_rank
from weft import Network
from weft.cli import main
from weft.cli.probe import print_probed
from weft.errors import ExecutionError, InputError, PeerError
from weft.network import two_tier
from weft.probing import Pair, most_rounds
from weft.runtime import Faults, FaultyTransport, Transport, loopback, probe_failure, probe_flows, probe_orders
from weft.runtime.probe import Probed, probe_on
from weft.runtime.probe_flows import AHEAD, FIRST, Buffers, message_sizes, settled_rate, stream_limit

Captured = pytest.CaptureFixture[str]
MANY = 4_000_000_000


def probed(
    size: int, faults: dict[int, Faults] | None = None, **options: Any
) -> tuple[list[Probed | None], list[Exception | None]]:
    """A probe by so many threads: what each found, or raised."""
    good = loopback(size)
    faulty = {rank: FaultyTransport(good[rank], wrong) for rank, wrong in (faults or {}).items()}
    everybody: list[Transport] = [faulty.get(rank, one) for rank, one in enumerate(good)]
    found: list[Probed | None] = [None] * size

    def work(rank: int) -> None:
        found[rank] = probe_on(everybody[rank], **{"seconds": 2.0, "nbytes": MANY} | options)

    return found, on_every_rank(size, work, faulty)


def test_all_ranks_get_the_same_and_nothing_exceeds_what_was_allowed() -> None:
    allowed = 20_000_000
    found, errors = probed(4, seconds=2.0, nbytes=allowed)
    assert errors == [None] * 4
    first = found[0]
    assert first is not None
    assert all(other == first for other in found)
    assert first.rounds <= most_rounds(4) + 1
    assert first.rank_bytes <= allowed
    assert first.rank_bytes <= first.bytes <= 4 * first.rank_bytes
    # Inference takes time as well, on a busy machine a lot of it.
    assert first.seconds < 2.0 + 10.0
    assert sorted(rank for region in first.regions for rank in region) == [0, 1, 2, 3]
    assert len(first.pairs) == 12
    assert Probed.of_json(json.loads(json.dumps(first.to_json()))) == first


@pytest.mark.parametrize("size", [1, 2])
def test_one_or_two_ranks_can_be_probed(size: int) -> None:
    found, errors = probed(size)
    assert errors == [None] * size
    assert found[0] is not None
    assert found[0].regions == (tuple(range(size)),)


def test_clocks_that_differ_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread has a clock of its own, hours from the others: times of two clocks that were compared would show."""
    offsets: dict[int, float] = {}
    numbers = itertools.count(1)

    class Clocks:
        sleep = staticmethod(time.sleep)

        @staticmethod
        def now() -> float:
            return time.monotonic() + 7200.0 * offsets.setdefault(threading.get_ident(), next(numbers))

        monotonic = perf_counter = now

    monkeypatch.setattr(probe_flows, "time", Clocks)
    found, errors = probed(3)
    assert errors == [None] * 3
    assert len(set(offsets.values())) >= 3, "no clocks were read"
    assert found[0] is not None
    for pair in found[0].pairs:
        assert 0 < pair.latency < 5
        assert 1e4 < pair.bandwidth < 1e12


@pytest.mark.parametrize("what", [{"seconds": 0.0}, {"nbytes": 0}, {"nbytes": 100_000}])
def test_too_little_to_probe_with_is_refused_by_all(what: dict[str, Any]) -> None:
    _, errors = probed(2, **what)
    assert all(isinstance(error, InputError) and "not enough to probe" in str(error) for error in errors)


# Streams


@pytest.mark.parametrize("budget", [100_000, 1_000_000, 30_000_000, 10**15])
def test_a_stream_that_ends_at_its_limit_keeps_within_its_budget(budget: int) -> None:
    limit = stream_limit(budget)
    assert limit > 0
    if budget < 10**15:
        total, sizes = 0, message_sizes()
        while total < limit:
            total += next(sizes)
        total += sum(next(sizes) for _ in range(AHEAD))
        assert 0.3 * budget < total <= budget


def test_there_is_no_limit_for_a_budget_that_is_too_small() -> None:
    assert stream_limit((AHEAD + 1) * FIRST) == FIRST
    assert stream_limit((AHEAD + 1) * FIRST - 1) == 0


def test_a_rate_is_that_of_the_later_part_of_a_round() -> None:
    slow_start = [(0.01 * k, 1000 * k) for k in range(1, 31)]
    steady = [(0.3 + 0.01 * k, 30_000 + 50_000 * k) for k in range(1, 101)]
    assert settled_rate(slow_start + steady, 1.0) == pytest.approx(5e6, rel=0.01)


@pytest.mark.parametrize("arrived", [[(0.5, 1000)], [(0.5, 1000), (0.5, 2000)]])
def test_streams_of_which_hardly_anything_came_have_no_rate(arrived: list[tuple[float, int]]) -> None:
    assert settled_rate(arrived, 1.0) == 0.0


# Failures


@pytest.mark.parametrize("operations", [0, 60], ids=["before its first order", "later"])
@pytest.mark.parametrize("victim", [1, 2])
@pytest.mark.parametrize("how", ["die", "hang"])
def test_a_rank_that_is_lost_during_a_probe_is_named_by_all_others(
    monkeypatch: pytest.MonkeyPatch, victim: int, how: str, operations: int
) -> None:
    monkeypatch.setattr(probe_orders, "MESSAGE_PATIENCE", 1.5)
    monkeypatch.setattr(probe_failure, "PATIENCE", 6.0)
    faults = Faults(die_after=operations) if how == "die" else Faults(hang_after=operations)
    _, errors = probed(4, {victim: faults})
    for rank, error in enumerate(errors):
        if rank != victim:
            assert isinstance(error, PeerError)
            assert error.culprits == error.silent == (victim,), str(error)
            assert f"see what became of rank {victim}" in str(error)
            assert "while the network is probed" in str(error)


def test_patience_is_long_until_all_pairs_have_met_and_then_as_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def answers_to(transport: Transport, buffers: Buffers, order: probe_orders.Order) -> list[probe_orders.Answer]:
        asked.append(order.patience)
        return probe_orders.answers_to(transport, buffers, order)

    monkeypatch.setattr(sys.modules["weft.runtime.probe"], "answers_to", answers_to)
    found, _ = probed(4)
    assert found[0] is not None
    assert found[0].rounds > 6
    assert asked[:5] == [probe_orders.MESSAGE_PATIENCE] * 5
    assert probe_orders.LEAST_PATIENCE <= asked[-1] < probe_orders.MESSAGE_PATIENCE


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), RuntimeError("of the progress bar")], ids=["ctrl-c", "error"])
def test_when_rank_0_ends_a_probe_the_others_do_not_wait(problem: BaseException) -> None:
    everybody = loopback(3)
    raised: list[BaseException | None] = [None] * 3

    def progress(done: int, whole: int) -> None:
        if done == 4:
            raise problem

    def work(rank: int) -> None:
        try:
            probe_on(everybody[rank], seconds=2.0, progress=progress)
        except BaseException as error:
            raised[rank] = error

    begun = time.monotonic()
    assert on_every_rank(3, work) == [None] * 3
    assert raised[0] is problem
    for error in raised[1:]:
        assert isinstance(error, ExecutionError)
        assert "rank 0 could not finish the probe" in str(error)
    assert time.monotonic() - begun < 30


# The command line


def example() -> Probed:
    pairs = tuple(Pair(a, b, 1.5e-4, 4e7, 5e7) for a in range(4) for b in range(4) if a != b)
    regions = ((0, 1), (2, 3))
    return Probed(
        two_tier(2, 2, 5e7, uplink=5e7), regions, (True, False), 0.034, 25.0, 17, 8.5, 10**9, 3 * 10**8, pairs
    )


def test_the_table_shows_pairs_regions_and_what_was_spent(capsys: Captured) -> None:
    print_probed(example())
    said = capsys.readouterr().out
    assert "not felt: the uplink of ranks 2 3" in said
    assert "fit error   3.4%" in said
    assert "17 rounds" in said
    rows = [line.split() for line in said.splitlines() if line.startswith("a0 ")]
    assert ["a0", "-", "320", "320", "320"] in rows
    assert ["a0", "-", "150", "150", "150"] in rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "RANK is not set: run weft probe as every rank"),
        (["--time", "0s"], "--time must be more than 0"),
        (["--time", "soon"], "'soon' is not a time"),
        (["--picture", "x.pdf"], "a picture is a .svg or a .png file"),
    ],
)
def test_bad_input_is_one_clear_line_and_code_2(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert main(["probe", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_the_json_form_has_the_network_as_text_that_reads_back() -> None:
    facts = example().to_json()
    assert Network.parse(facts["network"]) == example().network
    assert facts["regions"] == [[0, 1], [2, 3]]
    assert {"fit_error", "margin", "pairs", "rounds", "seconds", "bytes", "rank_bytes", "workers"} <= set(facts)
