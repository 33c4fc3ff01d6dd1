from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import InputError, Schedule, ScheduleError, Transfer, verify
from weft.collectives import butterfly, halving_doubling, ring
from weft.network import full_mesh


def exchange() -> Schedule:
    return Schedule.of_transfers(2, 1, [Transfer(0, 1, 0, "reduce"), Transfer(1, 0, 0, "reduce")])


def test_objects_and_arrays_tell_the_same() -> None:
    schedule = ring(full_mesh(3))
    assert schedule[0] == Transfer(0, 1, 0, "reduce")
    assert [str(t) for t in schedule][:3] == ["0>1 reduce 0", "1>2 reduce 1", "2>0 reduce 2"]
    assert Schedule.of_transfers(3, 3, list(schedule)) == schedule


def test_text_is_one_line_per_transfer_and_parses_back() -> None:
    schedule = halving_doubling(full_mesh(5))
    text = schedule.to_text()
    assert text.splitlines()[4:6] == ["4>0 reduce 0-3", "0>1 reduce 2-3"]
    assert len(text.splitlines()) == 4 + len(schedule)
    assert Schedule.parse(text) == schedule


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1"),
        ("weft schedule 1\nworkers 2\nchunks 1\n0>1 add 0\n", "line 4"),
        ("weft schedule 1\nchunks 1\n", "no line 'workers'"),
        ("weft schedule 1\nworkers\nchunks 1\n", "no line 'workers' with numbers"),
        (f"weft schedule 1\nworkers 2\nchunks {10**30}\n", "too large"),
        ("weft schedule 1\nworkers x\nchunks 1\n", "something else than numbers"),
        ("weft schedule 1\nworkers 2\nchunks 1\n0>1 reduce 5\n", "transfer 0"),
        ("weft schedule 1\nworkers 2\nchunks 1\n0>7 reduce 0\n", "transfer 0"),
        ("weft schedule 1\nworkers 2\nchunks 1\n1>1 reduce 0\n", "transfer 0"),
        ("weft schedule 1\nworkers 2\nchunks -1\n", "weights of the chunks"),
        ("weft schedule 1\nworkers 0\nchunks 1\n", "0 workers"),
        ("weft schedule 1\nworkers 2\nparticipants 1 0\nchunks 1\n", "participants"),
        ("weft schedule 1\nworkers 2\nchunks 1\n0>1 reduce 99999999999\n", "something else than numbers"),
    ],
)
def test_a_malformed_schedule_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ScheduleError, match=problem):
        Schedule.parse(text)


def test_the_digest_sees_every_part_and_not_the_name() -> None:
    base = Schedule.of_transfers(3, [1, 2], [Transfer(0, 1, 0, "reduce"), Transfer(1, 2, 1, "copy")])
    others = [
        Schedule.of_transfers(4, [1, 2], list(base), (0, 1, 2)),
        Schedule.of_transfers(3, [2, 1], list(base)),
        Schedule.of_transfers(3, [1, 2], list(base), (0, 1)),
        Schedule.of_transfers(3, [1, 2], list(base)[::-1]),
        Schedule.of_transfers(3, [1, 2], [base[0], Transfer(1, 2, 1, "reduce")]),
        Schedule.of_transfers(3, [1, 2], [Transfer(0, 1, 0, "reduce", 2), base[1]]),
    ]
    assert len({base.digest, *(other.digest for other in others)}) == 1 + len(others)
    assert Schedule.of_transfers(3, [1, 2], list(base), name="other").digest == base.digest


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20).filter(any), st.integers(0, 10**12))
def test_chunks_cover_the_tensor_without_gap_or_overlap(weights: list[int], elements: int) -> None:
    ends = Schedule.of(1, weights, [], [], [], []).boundaries(elements)
    assert ends[0] == 0
    assert ends[-1] == elements
    assert np.all(np.diff(ends) >= 0)


def test_a_tensor_smaller_than_the_number_of_chunks_has_empty_chunks() -> None:
    assert Schedule.of(1, 4, [], [], [], []).boundaries(2).tolist() == [0, 0, 1, 1, 2]


def test_an_exchange_sends_what_was_there_before() -> None:
    schedule = exchange()
    assert schedule.exchanges.tolist() == [False, True]
    assert schedule.depth == 1
    verify(schedule)
    verify(schedule.segmented(4))


def test_only_every_other_line_of_a_run_answers_the_one_above() -> None:
    back_and_forth = [Transfer(0, 1, 0, "reduce"), Transfer(1, 0, 0, "reduce")] * 2
    assert Schedule.of_transfers(2, 1, back_and_forth).exchanges.tolist() == [False, True, False, True]


def test_segments_follow_each_other_like_a_pipeline() -> None:
    chain = Schedule.of_transfers(3, 1, [Transfer(0, 1, 0, "reduce"), Transfer(1, 2, 0, "reduce")])
    lines = [str(t) for t in chain.segmented(3)]
    assert lines.index("1>2 reduce 0") < lines.index("0>1 reduce 2")
    assert [line for line in lines if line.startswith("0>1")] == ["0>1 reduce 0", "0>1 reduce 1", "0>1 reduce 2"]


def test_segmenting_never_moves_a_send_behind_a_later_receive() -> None:
    # Worker 1 hands chunk 0 on before it hears from worker 3, whose message is ready long before.
    transfers = [
        Transfer(0, 1, 0, "reduce"),
        Transfer(1, 2, 0, "reduce"),
        Transfer(3, 1, 0, "reduce"),
        Transfer(1, 2, 0, "copy"),
    ]
    finer = [str(t) for t in Schedule.of_transfers(4, 1, transfers).segmented(2)]
    for segment in range(2):
        assert finer.index(f"1>2 reduce {segment}") < finer.index(f"3>1 reduce {segment}")


def test_expanding_keeps_exchanges_together() -> None:
    transfers = [Transfer(0, 1, 0, "reduce", 2), Transfer(1, 0, 0, "reduce", 2)]
    single = Schedule.of_transfers(2, 2, transfers).expanded()
    assert [str(t) for t in single] == ["0>1 reduce 0", "1>0 reduce 0", "0>1 reduce 1", "1>0 reduce 1"]
    verify(single)


def test_impossible_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="0 segments"):
        butterfly(full_mesh(4)).segmented(0)
    with pytest.raises(InputError, match="-1 elements"):
        butterfly(full_mesh(4)).boundaries(-1)


def test_arrays_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        ring(full_mesh(3)).source[0] = 2


def test_slices_keep_transfers_of_several_chunks_whole() -> None:
    schedule = halving_doubling(full_mesh(8))
    fine = schedule.sliced(3)
    verify(fine)
    assert len(fine) == 3 * len(schedule)
    assert fine.depth == schedule.depth
    assert sorted(fine.span.tolist()) == sorted(3 * schedule.span.tolist())
    assert verify(butterfly(full_mesh(6)).sliced(5)).chunks == 5
    with pytest.raises(InputError, match="0 segments"):
        schedule.sliced(0)
