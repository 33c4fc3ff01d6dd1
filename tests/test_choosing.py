"""Which of several plans is taken, with times that the test gives."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from weft.collectives import ring
from weft.network import two_tier
from weft.planning import Costs, Plan
from weft.runtime import choosing
from weft.runtime.choosing import LEAST_MESSAGE, MOST_TURNS, TURNS, Tried, refined, tried

NETWORK = two_tier(2, 2)


def plan(name: str, seconds: float = 1.0, segments: int = 1) -> Plan:
    schedule = ring(NETWORK)
    return Plan(NETWORK, 1000, schedule.sliced(segments), name, segments, seconds, 1.0, "", schedule)


class Bed:
    """Times of plans, one a turn, and who had how many turns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: dict[str, list[float]], passed: float = 10.0) -> None:
        self.turns = dict.fromkeys(times, 0)

        def turn(_: Any, plan: Plan, __: Any) -> float:
            self.turns[plan.collective] += 1
            return times[plan.collective][self.turns[plan.collective] - 1]

        monkeypatch.setattr(choosing, "_turn", turn)
        monkeypatch.setattr(choosing, "slowest", lambda *_: [passed])

    def names(self) -> list[str]:
        nobody: Any = None
        return [one.plan.collective for one in tried(nobody, [plan(name) for name in self.turns])]


def test_the_fastest_is_first_and_the_turn_that_connects_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed(monkeypatch, {"slow to connect": [9.0, *[1.0] * TURNS], "slower": [1.0, *[1.1] * TURNS]})
    assert bed.names() == ["slow to connect", "slower"]


def test_what_is_far_behind_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed(monkeypatch, {"far behind": [5.0, 5.0], "near": [1.0] * (TURNS + 1)})
    assert bed.names() == ["near", "far behind"]
    assert bed.turns == {"far behind": 2, "near": TURNS + 1}


def test_short_plans_have_more_turns_and_an_outlier_does_not_end_them(monkeypatch: pytest.MonkeyPatch) -> None:
    outlier = [0.1, 0.1, 0.5, *[0.1] * (MOST_TURNS - 3), 0.5]
    bed = Bed(monkeypatch, {"steady": [0.11] * (MOST_TURNS + 1), "with an outlier": outlier}, passed=0.0)
    assert bed.names() == ["with an outlier", "steady"]
    assert set(bed.turns.values()) <= {MOST_TURNS, MOST_TURNS + 1}


def test_when_the_time_is_over_every_plan_has_had_a_turn_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed(monkeypatch, {"a": [1.0, 2.0], "b": [2.0, 1.0]}, passed=1e9)
    assert bed.names() == ["b", "a"]
    assert bed.turns == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("took", "names", "turns"),
    [
        (1.04, ["close", "best by prediction"], 0),  # as predicted: the spare cannot be faster
        (1.4, ["spare", "close", "best by prediction"], TURNS + 1),
    ],
)
def test_where_plans_take_longer_than_predicted_others_are_tried_too(
    monkeypatch: pytest.MonkeyPatch, took: float, names: list[str], turns: int
) -> None:
    times = {"best by prediction": [1.1 * took] * 99, "close": [took] * 99, "spare": [1.25] * 99}
    bed = Bed(monkeypatch, times)
    plans = [plan("best by prediction", 1.0), plan("close", 1.02, 2), plan("spare", 1.2, 4)]
    nobody: Any = None
    assert [one.plan.collective for one in tried(nobody, plans, at_once=2)] == names
    assert bed.turns["spare"] == turns


def test_a_plan_that_is_predicted_to_be_slower_waits_even_if_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed(monkeypatch, {"best": [1.0] * 99, "spare": [0.5] * 99})
    nobody: Any = None
    found = tried(nobody, [plan("best", 1.0), plan("spare", 1.3, 2)], at_once=4)
    assert [one.plan.collective for one in found] == ["best"]
    assert bed.turns["spare"] == 0


def refined_segments(monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float], nbytes: int = 100_000_000) -> int:
    """In how many segments a plan ends that takes so long in so many."""
    monkeypatch.setattr(choosing, "_turn", lambda _, plan, __: seconds[plan.segments])
    monkeypatch.setattr(choosing, "slowest", lambda numbers, _: list(numbers))
    schedule = ring(NETWORK)
    once = Plan(NETWORK, nbytes, schedule.sliced(2), "ring", 2, 1.0, 1.0, "", schedule)
    found = refined(Mock(pacing=None), Tried(once, (1.0,)), Costs())
    assert found.plan.digest == schedule.sliced(found.plan.segments).digest
    assert found.seconds == seconds[found.plan.segments]
    return found.plan.segments


def test_segments_double_as_long_as_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refined_segments(monkeypatch, {2: 1.0, 4: 0.9, 8: 0.8, 16: 0.795, 32: 0.1}) == 8


def test_segments_do_not_get_smaller_than_a_message_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    faster_and_faster = {2**k: 2.0**-k for k in range(20)}
    assert refined_segments(monkeypatch, faster_and_faster, 4 * LEAST_MESSAGE * 8) == 8


def test_a_plan_whose_segments_are_not_alike_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = ring(NETWORK)
    other = Plan(NETWORK, 10**8, schedule.segmented(3), "forest", 2, 1.0, 1.0, "", schedule)
    best = Tried(other, (1.0,))
    monkeypatch.setattr(choosing, "slowest", lambda numbers, _: list(numbers))
    assert refined(Mock(pacing=None), best, Costs()) is best
