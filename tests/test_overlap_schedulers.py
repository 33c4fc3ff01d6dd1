from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings

from overlap_cases import all_arrangements, models, random_case, workloads
from weft.errors import InputError
from weft.overlap import (
    SCHEDULERS,
    CommunicationModel,
    GradientTensor,
    Workload,
    asc_wfbp,
    fixed_size,
    least_seconds,
    mg_wfbp,
    model_workload,
    search,
    step,
    wfbp,
)

PAPER = CommunicationModel(1.4e-3, 1.7e-9, (1.0, 1.5))
MIB = 1 << 20


def gradients(*pairs: tuple[float, float]) -> Workload:
    """Gradients in the order in which they come: milliseconds and megabytes."""
    tensors = [GradientTensor(f"g{i}", int(mb * 250_000), ms / 1e3) for i, (ms, mb) in enumerate(pairs)]
    return Workload("few", tuple(reversed(tensors)))


def buckets(workload: Workload, scheduler: str, model: CommunicationModel) -> list[tuple[int, int | None]]:
    """How many gradients each bucket has, and what it comes after."""
    return [(len(rule.parameters), rule.after) for rule in SCHEDULERS[scheduler](workload, model).buckets]


@settings(deadline=None, max_examples=60)
@given(workloads(), models())
def test_every_gradient_is_in_exactly_one_bucket(workload: Workload, model: CommunicationModel) -> None:
    for scheduler in SCHEDULERS.values():
        arrangement = scheduler(workload, model)
        arrangement.check(len(workload.tensors))
        launched = [place for rule in arrangement.buckets for place in rule.parameters]
        assert launched == list(workload.order)
        assert arrangement.together <= model.together
        assert step(workload, arrangement, model).seconds >= least_seconds(workload, model) * (1 - 1e-9)


def test_sending_beside_a_long_one_is_weighed_with_what_both_lose_by_meeting() -> None:
    few = gradients((1, 10), (2, 1), (3, 1))
    # The second would end at 5 ms beside the first, before the third is there at 6 ms, if meeting cost nothing.
    assert buckets(few, "asc-wfbp", CommunicationModel(1e-3, 1e-9, (1.0, 1.0))) == [(1, None), (1, None), (1, 0)]
    # It costs both up to 8.2 ms: then waiting for the third is better.
    assert buckets(few, "asc-wfbp", CommunicationModel(1e-3, 1e-9, (1.0, 2.0))) == [(1, None), (2, None)]


def test_merging_waits_for_what_comes_before_starting_would_have_been_paid_again() -> None:
    model = CommunicationModel(1e-3, 1e-9)
    # The second comes 0.5 ms after the first, the third 1.5 ms after it: too long to wait, and not yet sent.
    assert buckets(gradients((1, 1), (0.5, 1), (1.5, 1)), "mg-wfbp", model) == [(2, None), (1, 0)]
    # A first that is long on its way makes waiting cheap for those behind it.
    assert buckets(gradients((1, 9), (1.5, 1), (1.5, 1), (1.5, 1)), "mg-wfbp", model) == [(1, None), (3, 0)]


def test_asc_sends_beside_what_mg_would_send_after() -> None:
    model = CommunicationModel(1e-3, 1e-9, (1.0, 1.5))
    workload = gradients((1, 9), (1.5, 1), (1.5, 1), (1.5, 1))
    assert buckets(workload, "asc-wfbp", model) == [(1, None), (3, None)]
    assert step(workload, asc_wfbp(workload, model), model).together == 2
    assert (
        step(workload, asc_wfbp(workload, model), model).seconds
        < step(workload, mg_wfbp(workload, model), model).seconds
    )


def test_asc_sends_in_turn_what_ends_before_the_next_is_there() -> None:
    model = CommunicationModel(1e-3, 1e-9, (1.0, 1.5))
    assert buckets(gradients((1, 1), (5, 1), (5, 1)), "asc-wfbp", model) == [(1, None), (1, 0), (1, 0)]


def test_asc_merges_all_where_no_gradient_takes_longer_than_starting() -> None:
    # Nothing is ever sent, so Q2 and Q3 contradict each other: the paper's S_2 would be 1.
    workload = gradients(*[(1.3, 4)] * 40)
    assert buckets(workload, "asc-wfbp", PAPER) == buckets(workload, "mg-wfbp", PAPER) == [(40, None)]


def test_asc_never_has_more_than_two_on_their_way() -> None:
    random = np.random.default_rng(1)
    for _ in range(100):
        workload, model = random_case(random, int(random.integers(2, 60)))
        assert asc_wfbp(workload, model).together <= 2


def test_asc_is_mg_where_only_one_may_be_on_its_way() -> None:
    random = np.random.default_rng(6)
    for _ in range(50):
        workload, model = random_case(random, 30)
        assert asc_wfbp(workload, model.limited(1)) == mg_wfbp(workload, model)


def test_the_greedy_is_not_optimal() -> None:
    workload, model = gradients((1, 1), (0.9, 1), (0.9, 8), (0.9, 1)), CommunicationModel(1e-3, 1e-9, (1.0, 1.5))
    greedy, best = (step(workload, scheduler(workload, model), model).seconds for scheduler in (asc_wfbp, search))
    assert best < 0.99 * greedy


def test_buckets_of_one_size_are_closed_by_what_fills_them() -> None:
    workload = Workload("w", tuple(GradientTensor(f"g{i}", MIB // 8, 0.0) for i in range(10)))
    sizes = [len(rule.parameters) for rule in fixed_size(workload, PAPER, 2 * MIB, MIB).buckets]
    assert sizes == [2, 4, 4]
    assert [len(rule.parameters) for rule in fixed_size(workload, PAPER).buckets] == [2, 8]
    # DistributedDataParallel makes the first bucket small only if nobody has asked for a size.
    assert [len(rule.parameters) for rule in fixed_size(workload, PAPER, 2 * MIB).buckets] == [4, 4, 2]
    with pytest.raises(InputError, match="at least 1"):
        fixed_size(workload, PAPER, 0)


def test_search_is_never_slower_than_any_other_on_a_thousand_workloads() -> None:
    random = np.random.default_rng(2)
    ahead = 0
    for _ in range(1000):
        workload, model = random_case(random, int(random.integers(1, 40)))
        best = step(workload, search(workload, model, budget=5_000), model).seconds
        for name, scheduler in SCHEDULERS.items():
            if name != "search":
                other = step(workload, scheduler(workload, model), model).seconds
                assert best <= other * (1 + 1e-9), name
                ahead += name == "asc-wfbp" and best < 0.99 * other
    assert ahead > 300


@pytest.mark.parametrize(("tensors", "cases"), [(2, 20), (3, 20), (4, 20), (5, 10), (6, 5), (7, 2), (8, 1)])
def test_search_is_within_2_percent_of_trying_everything(tensors: int, cases: int) -> None:
    random = np.random.default_rng(tensors)
    for _ in range(cases):
        workload, model = random_case(random, tensors)
        together = min(model.together, 3 if tensors > 6 else 8)
        model = model.limited(together)
        best = min(
            step(workload, arrangement, model).seconds for arrangement in all_arrangements(workload.order, together)
        )
        assert step(workload, search(workload, model), model).seconds <= 1.02 * best


def test_search_is_ahead_of_asc_where_the_paper_falls_short() -> None:
    workload = model_workload("densenet-201", 0.073, 0.146)
    greedy, best = (step(workload, scheduler(workload, PAPER), PAPER).seconds for scheduler in (asc_wfbp, search))
    assert workload.compute_seconds < best < 0.98 * greedy


def test_more_at_once_are_never_worse_for_search() -> None:
    workload = model_workload("resnet-50", 0.03, 0.06)
    wide = CommunicationModel(1.4e-3, 1.7e-9, tuple(max(1.0, 0.25 * m) for m in range(1, 9)))
    times = [step(workload, search(workload, wide.limited(m)), wide.limited(m)).seconds for m in (1, 2, 4, 8)]
    assert times[0] > times[1] > times[2]
    assert times[3] <= times[2] * 1.001


def test_a_thousand_gradients_are_scheduled_within_a_second() -> None:
    random = np.random.default_rng(3)
    search(*random_case(random, 4))
    took = []
    for _ in range(3):
        workload, model = random_case(random, 1000)
        begun = time.process_time()
        search(workload, model)
        asc_wfbp(workload, model)
        mg_wfbp(workload, model)
        wfbp(workload, model)
        took.append(time.process_time() - begun)
    assert min(took) < 1.0, took


def test_search_gives_the_same_in_every_run() -> None:
    workload, model = random_case(np.random.default_rng(4), 30)
    assert search(workload, model) == search(workload, model)
