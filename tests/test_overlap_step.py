from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlap_cases import arrangements, models, obvious_times, workloads
from weft.errors import InputError
from weft.overlap import (
    Arrangement,
    BucketRule,
    CommunicationModel,
    GradientTensor,
    Workload,
    least_seconds,
    model_workload,
    most_speedup,
    one_bucket,
    step,
    wfbp,
)
from weft.trace import Trace

A, B = 1e-3, 1e-9
ALONE = CommunicationModel(A, B)
TWO = CommunicationModel(A, B, (1.0, 1.5))


def even(count: int, elements: int, backward: float, forward: float = 0.0) -> Workload:
    return Workload(
        "even", tuple(GradientTensor(f"g{i}", elements, backward, forward) for i in range(count)), (), 0.002
    )


def test_one_bucket_takes_computing_and_then_all_bytes() -> None:
    workload = even(10, 1_000_000, 0.003, 0.001)
    result = step(workload, one_bucket(workload, ALONE), ALONE)
    assert result.seconds == pytest.approx(0.01 + 0.03 + A + B * 40e6 + 0.002)
    assert result.exposed_seconds == pytest.approx(A + B * 40e6)


def test_one_after_the_other_hides_all_but_the_last_if_computing_is_slower() -> None:
    workload = even(10, 250_000, 0.003)
    result = step(workload, wfbp(workload, ALONE), ALONE)
    assert result.exposed_seconds == pytest.approx(A + B * 1e6)
    assert result.together == 1


def test_one_after_the_other_starts_with_the_first_if_communication_is_slower() -> None:
    workload = even(10, 1_000_000, 0.003)
    result = step(workload, wfbp(workload, ALONE), ALONE)
    assert result.seconds == pytest.approx(0.003 + 10 * (A + B * 4e6) + 0.002)


def test_without_overlap_times_add_up() -> None:
    instant = even(4, 1_000_000, 0.0, 0.001)
    assert step(instant, wfbp(instant, ALONE), ALONE).seconds == pytest.approx(0.004 + 4 * (A + B * 4e6) + 0.002)


def test_an_infinitely_fast_network_exposes_nothing() -> None:
    workload = even(7, 1_000_000, 0.003, 0.001)
    model = CommunicationModel(0.0, 0.0, (1.0, 2.0))
    for arrangement in (wfbp(workload, model), one_bucket(workload, model)):
        result = step(workload, arrangement, model)
        assert result.seconds == pytest.approx(workload.compute_seconds)
        assert result.exposed_seconds == pytest.approx(0.0)


def pair(gap: float) -> tuple[Workload, Arrangement]:
    """The second of two equal gradients comes after a gap; both may be on their way at once."""
    workload = Workload("pair", (GradientTensor("late", 1_000_000, gap), GradientTensor("early", 1_000_000, 0.0)))
    return workload, Arrangement((BucketRule((1,)), BucketRule((0,))))


def test_two_at_once_take_what_the_model_says() -> None:
    assert step(*pair(0.0), TWO).seconds == pytest.approx(TWO.seconds(4e6, 2))
    assert step(*pair(0.0), ALONE).seconds == pytest.approx(2 * ALONE.seconds(4e6))


def test_a_part_that_meets_another_is_slowed_as_in_equation_13() -> None:
    gap = 0.002
    result = step(*pair(gap), TWO)
    alone = A + B * 4e6
    penalty = 0.5 * B * 4e6 * (1 - gap / alone)
    assert result.bucket_end[0] == pytest.approx(alone + penalty)
    # The second meets the first for as long, and goes on alone.
    met = alone + penalty - gap
    assert result.bucket_end[1] == pytest.approx(gap + met + (1 - met / (A + 1.5 * B * 4e6)) * alone)


def test_a_rule_makes_a_bucket_wait() -> None:
    workload, _ = pair(0.0)
    rules = Arrangement((BucketRule((1,)), BucketRule((0,), after=0)))
    assert step(workload, rules, TWO).seconds == pytest.approx(2 * TWO.seconds(4e6))
    assert (rules.together, pair(0.0)[1].together) == (1, 2)


def test_a_bucket_comes_after_all_up_to_the_one_it_is_told() -> None:
    sizes = (1_000, 1_000, 1_000, 50_000_000)
    workload = Workload("w", tuple(GradientTensor(f"g{i}", size, 0.0) for i, size in enumerate(sizes)))
    rules = (BucketRule((3,)), BucketRule((2,)), BucketRule((1,), after=1), BucketRule((0,), after=1))
    arrangement = Arrangement(rules)
    result = step(workload, arrangement, CommunicationModel(A, B, (1.0,) * 8))
    # The first is long on its way; the second has ended early.
    assert result.bucket_end[1] < result.bucket_end[0] == result.bucket_start[2] == result.bucket_start[3]
    assert result.together == arrangement.together == 2


def test_a_bucket_never_overtakes_the_one_before_it() -> None:
    workload = Workload("w", (GradientTensor("last", 1000, 0.01), GradientTensor("first", 1000, 0.0)))
    result = step(workload, Arrangement((BucketRule((0,)), BucketRule((1,)))), TWO)
    assert list(result.bucket_start) == pytest.approx([0.01, 0.01])


@settings(deadline=None, max_examples=300)
@given(st.data(), workloads(), models())
def test_steps_agree_with_the_obvious_ones(data: st.DataObject, workload: Workload, model: CommunicationModel) -> None:
    arrangement = data.draw(arrangements(workload))
    result = step(workload, arrangement, model)
    expected = obvious_times(workload, arrangement, model)
    begin = workload.forward_seconds
    for i, (start, end) in enumerate(expected):
        assert result.bucket_start[i] - begin == pytest.approx(float(start), abs=1e-9)
        assert result.bucket_end[i] - begin == pytest.approx(float(end), abs=1e-9)
    last = max(float(end) for _, end in expected)
    assert result.seconds == pytest.approx(begin + max(last, workload.backward_seconds) + workload.update_seconds)


@settings(deadline=None, max_examples=200)
@given(st.data(), workloads(), models())
def test_steps_keep_every_byte_and_every_limit(
    data: st.DataObject, workload: Workload, model: CommunicationModel
) -> None:
    arrangement = data.draw(arrangements(workload))
    result = step(workload, arrangement, model)
    spans = result.trace.spans
    buckets = [span for span in spans if span.category == "bucket"]
    assert sum(span.nbytes for span in buckets) == sum(result.bucket_bytes) == workload.nbytes
    assert result.seconds >= least_seconds(workload, model) * (1 - 1e-9) >= workload.compute_seconds * (1 - 1e-8)
    assert result.exposed_seconds >= -1e-9
    assert result.together <= min(model.together, arrangement.together)
    assert all(result.bucket_start >= result.bucket_ready - 1e-12)
    assert all(one <= two for one, two in pairwise(result.bucket_start))
    for number, rule in enumerate(arrangement.buckets):
        if rule.after is not None:
            assert result.bucket_start[number] >= max(result.bucket_end[: rule.after + 1])


@settings(deadline=None, max_examples=200)
@given(st.data(), workloads(), models())
def test_traces_have_no_impossible_overlaps(data: st.DataObject, workload: Workload, model: CommunicationModel) -> None:
    result = step(workload, data.draw(arrangements(workload)), model)
    trace = Trace.parse(result.trace.to_json())
    assert trace.seconds <= result.seconds + 1e-9
    for track in {span.track for span in trace.spans}:
        spans = sorted((s for s in trace.spans if s.track == track), key=lambda span: (span.start, span.end))
        assert all(one.end <= two.start + 1e-9 for one, two in pairwise(spans)), track
    tracks = {span.track for span in trace.spans if span.category == "bucket"}
    assert len(tracks) <= model.together
    backward = [span for span in trace.spans if span.category == "backward"]
    assert sum(span.end - span.start for span in backward) == pytest.approx(workload.backward_seconds, abs=1e-8)
    for span in trace.spans:
        if span.category == "update":
            assert all(other.end <= span.start + 1e-9 for other in trace.spans if other.category != "update")


def test_the_limit_of_equation_42_is_the_papers() -> None:
    workload = model_workload("resnet-152", 0.091, 0.182)
    least = 2 * 60e6 * 32 / 9.43e9
    assert least == pytest.approx(0.407, abs=5e-4)
    assert most_speedup(workload, least, 32) == pytest.approx(17.5, abs=0.05)
    assert most_speedup(workload, 0.1, 32) == pytest.approx(32.0)


def test_an_arrangement_that_loses_a_gradient_is_refused() -> None:
    workload, _ = pair(0.0)
    with pytest.raises(InputError, match=r"parameters \[0\] of 2"):
        step(workload, Arrangement((BucketRule((1,)),)), TWO)
    with pytest.raises(InputError, match=r"parameters \[1\] of 2"):
        step(workload, Arrangement((BucketRule((1,)), BucketRule((1, 0)))), TWO)
    with pytest.raises(InputError, match="only for an earlier one"):
        Arrangement((BucketRule((1,), after=0),))
    with pytest.raises(InputError, match="is empty"):
        Arrangement((BucketRule(()),))


def test_computing_beside_communication_is_slower_and_slows_it_down() -> None:
    """Two gradients, a second each. The first one's average takes half a second, but twice that while the second is computed,
    which meanwhile has half its speed: from 1 to 2. Another half second is left to be computed, then the second one leaves."""
    workload = Workload("two", (GradientTensor("first", 10, 1.0), GradientTensor("second", 10, 1.0)))
    model = CommunicationModel(0.5, 0.0, pace=0.5, drag=2.0)
    found = step(workload, wfbp(workload, model), model)
    assert found.bucket_start.tolist() == [1.0, 2.5]
    assert found.bucket_end.tolist() == [2.0, 3.0]
    assert found.bucket_ready.tolist() == [1.0, 2.5]
    backward = [(span.start, span.end) for span in found.trace.spans if span.category == "backward"]
    assert backward == [(0.0, 1.0), (1.0, 2.5)]


def test_an_average_that_outlives_computing_gets_faster_then() -> None:
    """From 1 to 2 the rest is computed at half its speed, and an eighth of the first average is done; seven eighths follow."""
    workload = Workload("two", (GradientTensor("first", 10, 0.5), GradientTensor("second", 10, 1.0)))
    model = CommunicationModel(2.0, 0.0, (1.0, 1.0), pace=0.5, drag=4.0)
    found = step(workload, wfbp(workload, model), model)
    assert found.bucket_ready.tolist() == [1.0, 2.0]
    assert found.bucket_start.tolist() == [1.0, 3.75]
    assert found.bucket_end.tolist() == [3.75, 5.75]


@pytest.mark.parametrize(("pace", "drag"), [(0.0, 1.0), (1.1, 1.0), (1.0, 0.9), (float("nan"), 1.0)])
def test_an_impossible_pace_or_drag_is_refused(pace: float, drag: float) -> None:
    with pytest.raises(InputError, match="pace"):
        CommunicationModel(1.0, 1.0, pace=pace, drag=drag)
