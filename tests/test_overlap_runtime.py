"""What overlapped training is made of, without any ranks: arrangements as data, recordings, proposals."""

from __future__ import annotations

import json
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from overlap_cases import workloads
from weft.errors import InputError
from weft.overlap import (
    SCHEDULERS,
    Arrangement,
    BucketRule,
    CommunicationModel,
    GradientTensor,
    Workload,
    shared_link,
    step,
)
from weft.torch.buckets import Bucket
from weft.torch.profiling import workload_of_times
from weft.torch.proposing import MEGABYTES, parse, proposals, shortlist, to_text
from weft.torch.racing import FEW, MANY, MOST_ROUNDS, fastest_first, having_a_turn
from weft.torch.recording import Recording


@st.composite
def arrangements(draw: st.DrawFn) -> Arrangement:
    count = draw(st.integers(1, 12))
    order = draw(st.permutations(range(count)))
    cuts = sorted(draw(st.sets(st.integers(1, count - 1)))) if count > 1 else []
    pieces = [order[a:b] for a, b in zip([0, *cuts], [*cuts, count], strict=True)]
    rules = []
    for number, piece in enumerate(pieces):
        after = draw(st.one_of(st.none(), st.integers(0, number - 1))) if number else None
        rules.append(BucketRule(tuple(piece), after))
    return Arrangement(tuple(rules))


@given(arrangements())
def test_an_arrangement_is_read_as_it_was_written(arrangement: Arrangement) -> None:
    assert Arrangement.of_json(json.loads(json.dumps(arrangement.to_json()))) == arrangement


@pytest.mark.parametrize("wrong", [3, [[1, 2]], [[["x"], None]], [[[0], 0]]])
def test_what_is_not_an_arrangement_is_refused(wrong: object) -> None:
    with pytest.raises(InputError):
        Arrangement.of_json(wrong)


@given(arrangements(), st.randoms())
def test_a_divided_arrangement_has_one_kind_a_bucket_and_waits_no_less(
    arrangement: Arrangement, draw: random.Random
) -> None:
    count = sum(len(rule.parameters) for rule in arrangement.buckets)
    kinds = [draw.choice("ab") for _ in range(count)]
    divided = arrangement.divided(kinds)
    divided.check(count)
    home = {p: number for number, rule in enumerate(arrangement.buckets) for p in rule.parameters}
    for rule in divided.buckets:
        assert len({kinds[p] for p in rule.parameters}) == 1
        before = arrangement.buckets[home[rule.parameters[0]]].after
        if before is None:
            assert rule.after is None
        else:
            assert rule.after is not None
            awaited = {home[r.parameters[0]] for r in divided.buckets[: rule.after + 1]}
            assert awaited == set(range(before + 1))


def recording() -> Recording:
    return Recording(
        begun=10.0, gradients=[10.9, 10.7, 0.0], forward_begun=10.2, forward_ended=10.5, computed=10.95, ended=11.2,
        flights=[(10.7, 11.0), (10.9, 11.2)],
    )  # fmt: skip


def test_a_gradient_that_did_not_come_is_there_at_the_end_of_computing() -> None:
    assert recording().reached == pytest.approx([0.2, 0.5, 0.9, 0.7, 0.95])


def test_a_workload_is_as_long_as_the_last_rank_and_not_as_the_slowest_passes_together() -> None:
    early_then_late, late_then_early = [0.1, 0.3, 1.0, 0.6], [0.2, 0.6, 0.9, 0.7]
    last = [max(both) for both in zip(early_then_late, late_then_early, strict=True)]
    found = workload_of_times(["a", "b"], [torch.zeros(3), torch.zeros(5)], last)
    assert found.order == (1, 0)
    assert found.ready == pytest.approx([0.1, 0.4])
    assert (found.update_seconds, found.forward_seconds) == pytest.approx((0.2, 0.4))
    assert found.compute_seconds == pytest.approx(1.0)


def test_a_recorded_step_has_the_form_of_a_simulated_one() -> None:
    parameters = [torch.nn.Parameter(torch.zeros(n)) for n in (3, 5, 7)]
    buckets = [Bucket(rule, parameters, with_flags=False) for rule in (BucketRule((1,)), BucketRule((0, 2)))]
    trace = recording().trace(["first", "second", "third"], buckets)
    spans = {span.name: (span.track, round(span.start, 6), round(span.end, 6), span.nbytes) for span in trace.spans}
    assert spans == {
        "forward": ("compute", 0.0, 0.3, 0.0),
        "backward second": ("compute", 0.3, 0.5, 0.0),
        "backward first": ("compute", 0.5, 0.7, 0.0),
        "bucket 0: second": ("network 1", 0.5, 0.8, 20.0),
        "bucket 1: first to third": ("network 2", 0.7, 1.0, 40.0),
        "update": ("compute", 1.0, 1.2, 0.0),
    }
    assert trace.seconds == pytest.approx(recording().seconds)


def test_everybody_has_a_turn_and_the_hopeless_have_no_second() -> None:
    assert having_a_turn([[], [], []]) == [0, 1, 2]
    assert having_a_turn([[1.0], [1.1], [1.3]]) == [0, 1]
    assert having_a_turn([[1.0], [1.3]]) == []


def test_a_race_goes_on_until_the_slower_is_shown_to_be_slower() -> None:
    clear = [[1.0, 1.01, 1.0], [1.05, 1.06, 1.05]]
    assert having_a_turn(clear) == []
    scattered = [[1.0, 1.08, 0.92], [1.05, 1.12, 0.98], [1.2, 1.3, 1.25]]
    assert having_a_turn(scattered) == [0, 1]
    assert having_a_turn([4 * taken for taken in scattered[:2]]) == [0, 1]
    assert having_a_turn([6 * taken for taken in scattered[:2]]) == []
    assert having_a_turn([[1.0, 1.0, 1.0], [1.001, 1.001, 1.001]]) == []
    assert len(having_a_turn([[1.0, 1.1, 0.9]] * 7)) == MANY
    assert len(having_a_turn([3 * [1.0, 1.1, 0.9]] * 7)) == FEW


def test_who_dropped_out_does_not_win_by_a_lucky_turn() -> None:
    assert fastest_first([[1.0, 1.1], [0.9], [1.02, 1.03]]) == [(2, 1.025), (0, 1.05), (1, 0.9)]


@settings(deadline=None)
@given(st.lists(st.floats(1.0, 1.1), min_size=2, max_size=6), st.floats(0.001, 0.1), st.integers(0, 2**32))
def test_races_end_and_are_won_by_one_that_is_hardly_slower_than_the_best(
    truth: list[float], noise: float, seed: int
) -> None:
    draw = random.Random(seed)
    turns: list[list[float]] = [[] for _ in truth]
    while racing := having_a_turn(turns):
        for place in racing:
            turns[place].append(truth[place] * max(0.5, draw.gauss(1, noise)))
    assert max(map(len, turns)) <= MOST_ROUNDS
    winner = fastest_first(turns)[0][0]
    # Three turns tell apart what differs by about three times the noise; a tenth is all that there can be.
    assert truth[winner] / min(truth) <= 1.001 + 4 * noise


MODELS: dict[str, CommunicationModel] = {"ours": shared_link(1e-3, 1e-8, 4), "the backend": shared_link(5e-3, 5e-8, 4)}


@settings(deadline=None)
@given(workloads(most=6))
def test_proposals_are_sorted_and_predicted_by_the_step_simulator(workload: Workload) -> None:
    found = proposals(workload, MODELS, [0] * len(workload.tensors))
    assert [one.seconds for one in found] == sorted(one.seconds for one in found)
    for one in found:
        assert one.seconds == step(workload, one.arrangement, MODELS[one.way]).seconds
    assert found[0].seconds == min(
        step(workload, s(workload, m), m).seconds for s in SCHEDULERS.values() for m in MODELS.values()
    )
    assert parse(to_text(found)) == found


@settings(deadline=None)
@given(workloads(most=6), st.integers(1, 4))
def test_a_shortlist_has_the_best_of_every_way(workload: Workload, count: int) -> None:
    found = proposals(workload, MODELS, [0] * len(workload.tensors))
    some = shortlist(found, count, 1.25)
    assert some[0] == found[0]
    assert {one.way for one in some} == set(MODELS)
    for way in MODELS:
        best = next(one for one in found if one.way == way)
        assert next(one for one in some if one.way == way) == best
    assert len(some) <= count + (len(MODELS) - 1) + len(MODELS) * len(MEGABYTES)


def test_a_shortlist_has_all_that_users_would_try_by_hand_by_every_way() -> None:
    tensors = tuple(GradientTensor(f"g{i}", 400_000, 1e-3, 2e-3, 4) for i in range(40))
    models = {"ours": shared_link(1e-3, 1e-9, 4), "the backend": shared_link(1.1e-3, 1.1e-9, 4)}
    found = proposals(Workload("forty", tensors, (), 0.0), models, [0] * len(tensors))
    some = shortlist(found, 1, 1.25)
    by_hand = {(one.scheduler, one.way) for one in some if one.scheduler.startswith("buckets of")}
    close = [one for one in found if one.seconds <= 1.25 * found[0].seconds]
    assert by_hand == {(one.scheduler, one.way) for one in close if one.scheduler.startswith("buckets of")}
    assert {way for _, way in by_hand} == set(models)
    assert len(by_hand) > len(models)
