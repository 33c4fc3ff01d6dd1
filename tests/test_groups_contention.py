"""Who is slow, from how long groups took: found, agreed upon, and forgotten when it is over."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from test_groups_patterns import racks
from weft.errors import InputError
from weft.groups import Contention, Meeting, Pattern, Rack, Speeds, Thresholds, divide_and_shuffle, speeds_of

WINDOW = 60


def measured(
    pattern: Pattern,
    found: tuple[Rack, ...],
    workers: dict[int, float],
    uplinks: dict[int, float],
    noise: float = 0,
    seed: int = 0,
) -> list[Meeting]:
    """Groups as slow as the slowest worker and, between racks, the slowest uplink in them."""
    home = {rank: number for number, rack in enumerate(found) for rank in rack.ranks}
    draw = random.Random(seed)
    meetings = []
    for step in range(WINDOW):
        for group in pattern.round(step).groups:
            crossed = {home[rank] for rank in group}
            speed = min(workers.get(rank, 1.0) for rank in group)
            if len(crossed) > 1:
                speed = min([speed, *(uplinks.get(number, 1.0) for number in crossed)])
            expected = 0.01 * (2 - 2 / len(group)) + 1e-4
            meetings.append(Meeting(group, expected / speed * (1 + noise * draw.random()), expected))
    return meetings


def settled(start: Contention, workers: dict[int, float], uplinks: dict[int, float], windows: int = 6) -> Contention:
    state = start
    for window in range(windows):
        meetings = measured(state.pattern, state.racks, workers, uplinks, 0.08, window)
        state = state.after_meetings(meetings)
    return state


def test_a_slow_worker_is_told_from_those_it_meets() -> None:
    found = racks(5, 3)
    meetings = measured(divide_and_shuffle(found), found, {4: 0.5}, {})
    speeds = speeds_of(found, meetings)
    assert speeds.workers[4] == pytest.approx(0.5)
    assert min(speed for rank, speed in speeds.workers.items() if rank != 4) == pytest.approx(1.0)
    state = Contention(found).after(speeds)
    assert (state.slow_workers, state.slow_uplinks) == ((4,), ())
    assert len(state.pattern.round(0).group_of(4)) == 2
    assert str(state) == "worker 4"


def test_a_slow_uplink_among_four_is_found_by_dividing() -> None:
    found = racks(3, 3, 3, 3)
    first = Contention(found).after(speeds_of(found, measured(divide_and_shuffle(found), found, {}, {2: 0.4})))
    assert first.slow_uplinks == (0, 1, 2, 3), "one group crosses them all, so all look slow"
    assert settled(Contention(found), {}, {2: 0.4}).slow_uplinks == (2,)


def test_an_uplink_far_below_the_others_is_crossed_by_halves_until_it_is_better() -> None:
    found = racks(4, 4)
    little = settled(Contention(found), {}, {0: 0.7})
    assert (little.slow_uplinks, little.halved) == ((0, 1), ())
    much = settled(little, {}, {0: 0.4})
    assert (much.slow_uplinks, much.halved) == ((0, 1), (0, 1))
    assert much.pattern.round(0).parted == ((0, 4),)
    assert "by halves" in str(much)
    assert settled(much, {}, {0: 0.66}, 1).halved == (0, 1), "between the two thresholds nothing changes"
    better = settled(much, {}, {0: 0.8}, 3)
    assert (better.slow_uplinks, better.halved) == ((0, 1), ())


def test_when_contention_ends_the_original_pattern_is_back() -> None:
    found = racks(5, 4, 4)
    state = settled(Contention(found), {4: 0.45}, {0: 0.5})
    assert (state.slow_workers, state.slow_uplinks) == ((4,), (0,))
    after = settled(state, {}, {}, 2)
    assert after.pattern == divide_and_shuffle(found)
    assert after == Contention(found)


def test_groups_with_a_known_slow_one_are_not_held_against_the_others() -> None:
    # Of three racks, one slow: the other two only ever meet the slow one, and still count as regular.
    found = racks(3, 3, 3)
    state = Contention(found, slow_uplinks=(0,))
    for window in range(6):
        state = state.after_meetings(measured(state.pattern, found, {}, {0: 0.5}, 0.08, window))
        assert state.slow_uplinks == (0,)


slow_parts = st.floats(0.2, 0.55)


@st.composite
def contended(draw: st.DrawFn) -> tuple[tuple[Rack, ...], dict[int, float], dict[int, float]]:
    # Two slow workers of three behind a slow uplink could not be told from three: nobody has seen the third without them.
    found = racks(*draw(st.lists(st.integers(4, 6), min_size=3, max_size=5)))
    everybody = [rank for rack in found for rank in rack.ranks]
    part = draw(slow_parts)
    slow = draw(st.sets(st.sampled_from(everybody), max_size=2))
    uplinks = draw(st.sets(st.integers(0, len(found) - 1), max_size=len(found) - 2))
    return found, dict.fromkeys(slow, part), dict.fromkeys(uplinks, part)


@given(contended())
@settings(max_examples=25, deadline=None)
def test_any_few_slow_ones_are_found_and_nobody_else(
    case: tuple[tuple[Rack, ...], dict[int, float], dict[int, float]],
) -> None:
    found, workers, uplinks = case
    state = settled(Contention(found), workers, uplinks, 8)
    assert set(state.slow_workers) == set(workers)
    assert set(state.slow_uplinks) == set(uplinks)
    assert settled(state, {}, {}, 3).pattern == divide_and_shuffle(found)


speeds = st.floats(0.05, 1.2)
some_speeds = st.builds(
    Speeds, st.dictionaries(st.integers(0, 7), speeds, max_size=8), st.dictionaries(st.integers(0, 1), speeds)
)


@given(st.lists(some_speeds, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_all_ranks_decide_alike_whatever_the_order_of_the_numbers(history: list[Speeds], draw: random.Random) -> None:
    one = other = Contention(racks(4, 4))
    for found in history:
        shuffled = [list(found.workers.items()), list(found.uplinks.items())]
        for items in shuffled:
            draw.shuffle(items)
        one, other = one.after(found), other.after(Speeds(dict(shuffled[0]), dict(shuffled[1])))
        assert one == other
        assert one.pattern == other.pattern


@given(
    st.lists(st.floats(Thresholds().slow, Thresholds().well, exclude_max=True), min_size=1, max_size=30), st.booleans()
)
def test_between_the_thresholds_nothing_changes(series: list[float], begins_slow: bool) -> None:
    state = Contention(racks(4, 4), slow_workers=(2,) if begins_slow else ())
    for speed in series:
        state = state.after(Speeds(dict.fromkeys(range(8), 1.0) | {2: speed}, {}))
        assert state.slow_workers == ((2,) if begins_slow else ())


@given(st.lists(st.floats(0.1, 1.0), min_size=2, max_size=40), st.integers(1, 3), st.integers(1, 4))
def test_a_worker_changes_at_most_once_in_so_many_windows(
    series: list[float], slow_times: int, well_times: int
) -> None:
    state = Contention(racks(4, 4), Thresholds(slow_times=slow_times, well_times=well_times))
    was = []
    for speed in series:
        state = state.after(Speeds(dict.fromkeys(range(8), 1.0) | {2: speed}, {}))
        was.append(2 in state.slow_workers)
    changes = [i for i, (before, now) in enumerate(pairwise([False, *was])) if before != now]
    for one, two in pairwise(changes):
        assert two - one >= (well_times if was[one] else slow_times)


@given(st.floats(0.05, 1.0))
def test_if_everything_is_slow_nothing_is(speed: float) -> None:
    state = Contention(racks(4, 4)).after(Speeds(dict.fromkeys(range(8), speed), {0: speed, 1: speed}))
    assert str(state) == "nobody is slow"


@given(some_speeds)
def test_whoever_was_not_measured_stays_as_it_is(found: Speeds) -> None:
    assume(3 not in found.workers)
    state = Contention(racks(4, 4), slow_workers=(3,), slow_uplinks=(1,))
    assert 3 in state.after(found).slow_workers
    assert state.after(Speeds({}, {})) == state


def test_times_and_thresholds_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="both times must be above 0"):
        Meeting((0, 1), 0.0, 1.0)
    with pytest.raises(InputError, match="speed inf of worker 1"):
        Speeds({1: float("inf")}, {})
    with pytest.raises(InputError, match="slow <= well"):
        Thresholds(slow=0.9, well=0.8)
