"""weft.torch: buckets, choices and statistics by themselves, and training on gloo, with every rank a process."""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import HashStore

import weft.torch as wt
from processes import TESTS, check_all_end, check_ranks, free_port
from weft.collectives import butterfly, ring
from weft.errors import InputError, ProofError
from weft.network import full_mesh
from weft.planning import Plan
from weft.torch.arrangement import by_size
from weft.torch.backward import Backward
from weft.torch.buckets import Bucket
from weft.torch.deciding import size_classes
from weft.torch.memory import ParameterMemory
from weft.torch.statistics import Tally, covered

SCRIPT, OVERLAP = "torch_rank.py", "overlap_rank.py"


def test_losses_are_those_of_ddp_whatever_the_schedule() -> None:
    check_ranks(SCRIPT, 4, "same_losses_as_ddp", "in_groups")


def test_training_in_all_its_forms_on_two_ranks_under_torchrun() -> None:
    names = (
        "gradients_in_buckets", "accumulation_and_kept_memory", "unused_parameters", "dynamic_plans", "as_a_module", "hooks",
        "measured_and_planned", "broken_off",
    )  # fmt: skip
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", free_port()]
    check_all_end([([*torchrun, str(TESTS / SCRIPT), ",".join(names)], {})], 300, [0])


def test_a_rank_that_dies_is_named_by_the_backward_pass_of_the_others() -> None:
    check_ranks(SCRIPT, 3, "a_rank_dies")


def test_losses_are_those_of_ddp_under_every_scheduler() -> None:
    check_ranks(OVERLAP, 2, "every_scheduler_has_ddps_losses")


def test_any_arrangement_ends_whatever_is_late_on_which_rank() -> None:
    check_ranks(OVERLAP, 3, "any_arrangement_with_any_delays")


def test_steps_that_change_are_tuned_for_again() -> None:
    check_ranks(OVERLAP, 2, "drift_is_noticed")


def test_a_late_optimizer_makes_the_same_steps() -> None:
    check_ranks(OVERLAP, 2, "late_steps_are_the_same_steps", "late_steps_are_tuned_for")


def test_what_is_still_on_its_way_leaves_before_whatever_is_launched_next() -> None:
    check_ranks(OVERLAP, 3, "late_passes_let_others_launch")


def test_a_step_is_recorded_and_types_are_kept_apart() -> None:
    check_ranks(OVERLAP, 2, "a_step_as_a_trace", "gradients_of_two_types")


class _Flight:
    """An average that ends when the test says so."""

    begun, bytes_sent = 1.0, 10

    def __init__(self) -> None:
        self.ended = 0.0
        self._calls: list[Callable[[], None]] = []

    def wait(self) -> None:
        self.land()

    def when_done(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def land(self) -> None:
        self.ended = 2.0
        calls, self._calls = self._calls, []
        for call in calls:
            call()


def _parameters(*sizes: int) -> list[nn.Parameter]:
    return [nn.Parameter(torch.zeros(size)) for size in sizes]


def _begun(arrangement: wt.Arrangement, parameters: list[nn.Parameter]) -> tuple[Backward, list[int], list[_Flight]]:
    buckets = [Bucket(rule, parameters, with_flags=False) for rule in arrangement.buckets]
    launched: list[int] = []
    flights: list[_Flight] = []

    def launch(bucket: Bucket) -> _Flight:
        launched.append(buckets.index(bucket))
        flights.append(_Flight())
        return flights[-1]

    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    return Backward(buckets, launch, lambda _: [1]), launched, flights


def test_full_buckets_leave_in_order_however_gradients_come() -> None:
    rules = tuple(wt.BucketRule(places) for places in ((3,), (2, 1), (0,)))
    backward, launched, _ = _begun(wt.Arrangement(rules), _parameters(1, 2, 3, 4))
    assert backward.arrive(2, 0)
    assert backward.arrive(1, 1)
    assert launched == []
    assert backward.arrive(0, 0)
    assert launched == [0]
    assert backward.arrive(1, 0)
    assert launched == [0, 1, 2]
    assert not backward.arrive(1, 0), "a gradient comes once"


def test_a_bucket_that_comes_after_another_waits_for_its_end() -> None:
    rules = (wt.BucketRule((2,)), wt.BucketRule((1,), after=0), wt.BucketRule((0,)))
    backward, launched, flights = _begun(wt.Arrangement(rules), _parameters(1, 2, 3))
    for b in (0, 1, 2):
        backward.arrive(b, 0)
    assert launched == [0]
    flights[0].land()
    assert launched == [0, 1, 2]


def test_a_bucket_that_comes_after_another_waits_for_all_before_that_one_too() -> None:
    rules = (wt.BucketRule((2,)), wt.BucketRule((1,)), wt.BucketRule((0,), after=1))
    backward, launched, flights = _begun(wt.Arrangement(rules), _parameters(1, 2, 3))
    for b in (0, 1, 2):
        backward.arrive(b, 0)
    flights[1].land()
    assert launched == [0, 1]
    flights[0].land()
    assert launched == [0, 1, 2]


def test_what_is_missing_leaves_as_zeros_and_everything_is_awaited() -> None:
    rules = (wt.BucketRule((1,)), wt.BucketRule((0,), after=0))
    parameters = _parameters(2, 2)
    backward, launched, flights = _begun(wt.Arrangement(rules), parameters)
    backward.arrive(1, 0)
    parameters[1].grad = None
    assert backward.complete(0) == [0]
    assert backward.complete(1) == []
    tally = Tally()
    backward.wait(tally)
    assert launched == [0, 1]
    assert all(flight.ended for flight in flights)
    taken = tally.take()
    assert (taken.communication_seconds, taken.bytes_sent, taken.passes) == (1.0, 20, 1)


def test_buckets_go_from_the_last_parameter_to_the_first_by_type_and_size() -> None:
    parameters = [torch.zeros(10), torch.zeros(10, dtype=torch.float64), torch.zeros(10), torch.zeros(10)]
    found = by_size(parameters, bucket_bytes=80, first_bytes=40)
    assert [rule.parameters for rule in found.buckets] == [(3,), (1,), (2, 0)]
    found.check(4)
    # The first one is small only if nobody asked for a size.
    megabytes = [torch.zeros(1 << 18) for _ in range(30)]
    assert [len(rule.parameters) for rule in by_size(megabytes).buckets] == [1, 25, 4]
    assert [len(rule.parameters) for rule in by_size(megabytes, 10 << 20).buckets] == [10, 10, 10]
    for wrong in (
        lambda: by_size(parameters, bucket_bytes=0),
        lambda: wt.Arrangement((wt.BucketRule((0,), after=0),)),
        lambda: wt.Arrangement((wt.BucketRule(()),)),
        lambda: wt.Arrangement((wt.BucketRule((0, 0)),)).check(1),
        lambda: wt.Arrangement((wt.BucketRule((0,)),)).check(2),
    ):
        with pytest.raises(InputError):
            wrong()


def test_gradients_keep_the_layout_of_their_parameters() -> None:
    images = nn.Parameter(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last))
    holes = nn.Parameter(torch.zeros(4, 6)[:, ::2])
    bucket = Bucket(wt.BucketRule((0, 1)), [images, holes], with_flags=True)
    assert bucket.views[0].stride() == images.stride()
    assert bucket.views[1].is_contiguous()
    bucket.views[0].fill_(1)
    bucket.views[1].fill_(2)
    bucket.raise_flags([1, 0])
    assert bucket.flat.tolist() == [1.0] * 120 + [2.0] * 12 + [1.0, 0.0]


def test_gradients_are_weighed_on_their_way_in_wherever_they_lie() -> None:
    parameters = _parameters(2, 3, 1)
    bucket = Bucket(wt.BucketRule((0, 1, 2)), parameters, with_flags=True)
    bucket.share = 0.25
    parameters[0].grad = torch.full((2,), 4.0)
    bucket.views[1].fill_(8.0)
    bucket.attach(1)
    for k in range(3):
        bucket.take_in(k)
    bucket.raise_flags([1, 1, 0])
    assert bucket.flat.tolist() == [1.0] * 2 + [2.0] * 3 + [0.0] + [0.25, 0.25, 0.0]


def test_a_bucket_takes_its_gradients_when_the_last_one_is_there() -> None:
    parameters = _parameters(1, 1)
    backward, launched, _ = _begun(wt.Arrangement((wt.BucketRule((1, 0)),)), parameters)
    backward.arrive(0, 0)
    parameters[1].grad = torch.full((1,), 5.0)
    assert launched == []
    backward.arrive(0, 1)
    assert [float(p.grad) for p in parameters if p.grad is not None] == [1.0, 5.0]
    assert launched == [0]


def _plan(nbytes: int, collective: str) -> Plan:
    network = full_mesh(3)
    schedule = ring(network).segmented(2) if collective == "ring" else butterfly(network)
    return Plan(network, nbytes, schedule, collective, 2, 1.0, 0.5, "because", ring(network))


def test_a_choice_takes_the_plan_of_the_nearest_size_and_survives_as_text(tmp_path: Path) -> None:
    small, large = _plan(1_000, "butterfly"), _plan(1_000_000, "ring")
    choice = wt.Choice.of([large, small])
    assert choice.way(1) is small
    assert choice.way(30_000) is small
    assert choice.way(40_000) is large
    assert wt.Choice.parse(choice.to_text()).digest == choice.digest
    for given in (ring(full_mesh(3)), "backend"):
        assert wt.Choice.parse(wt.Choice.of(given).to_text()) == wt.Choice.of(given)
    assert wt.Choice.of(small).digest != wt.Choice.of(large).digest
    large.save(tmp_path / "large.json")
    assert wt.Choice.of(tmp_path / "large.json").digest == wt.Choice.of(large).digest


@pytest.fixture
def _alone() -> Iterator[None]:
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("_alone")
def test_one_rank_alone_trains_as_without_a_wrapper() -> None:
    bare = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    model = wt.DataParallel(copy.deepcopy(bare))
    assert "only one rank" in model.report()
    for one in (bare, model):
        one(torch.arange(6.0).view(2, 3)).square().sum().backward()
    for ours, theirs in zip(model.parameters(), bare.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert torch.equal(ours.grad, theirs.grad)
    statistics = model.take_statistics()
    assert (statistics.passes, statistics.bytes_sent) == (1, 0)


def test_a_group_that_is_destroyed_takes_its_communicator_along() -> None:
    """Otherwise gloo's threads outlive it, and one that is busy when the interpreter ends aborts the process."""
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    alive = weakref.ref(wt.communicator())
    assert alive() is wt.communicator()
    dist.destroy_process_group()
    gc.collect()
    assert alive() is None


@pytest.mark.usefixtures("_alone")
def test_gradients_that_cannot_be_averaged_are_named() -> None:
    words = wt.DataParallel(nn.Embedding(5, 3, sparse=True), "backend")
    with pytest.raises(InputError, match=r"gradient of 'weight' is torch\.sparse_coo"):
        words(torch.tensor([1])).sum().backward()
    twice = wt.DataParallel(nn.Linear(2, 2), "backend")
    with pytest.raises(InputError, match="can be differentiated again"):
        twice(torch.ones(1, 2)).square().sum().backward(create_graph=True)
    with pytest.raises(InputError, match=r"'weight' is torch\.complex64"):
        wt.DataParallel(nn.Linear(2, 2, dtype=torch.complex64))
    with pytest.raises(InputError, match="unused='maybe'"):
        wt.DataParallel(nn.Linear(2, 2), "backend", unused="maybe")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="2 weights for 1 ranks"):
        wt.DataParallel(nn.Linear(2, 2), "backend", weights=[1, 2])
    with pytest.raises(InputError, match="'auto' is for DataParallel"):
        wt.HookState("auto")


def test_choices_that_cannot_be_are_refused() -> None:
    for given in ([], 3, ["ring"], None):
        with pytest.raises(InputError):
            wt.Choice.of(given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot read"):
        wt.Choice.of("no such file")
    with pytest.raises(InputError, match="for 3 ranks cannot run on 4"):
        wt.Choice.of(ring(full_mesh(3))).check(4)
    network = full_mesh(3)
    with pytest.raises(InputError, match=r"ranks \[2\] would train without the others"):
        wt.Choice.of(ring(network.with_active(network.workers[:2]))).check(3)
    text = wt.Choice.of(ring(network)).to_text()
    for broken in (
        "{}",
        "[",
        text.replace('"weft_choice": 1', '"weft_choice": 2'),
        text.replace("schedule", "nothing", 1),
    ):
        with pytest.raises(InputError):
            wt.Choice.parse(broken)
    with pytest.raises(ProofError):
        wt.Choice.parse(text.replace("\\n0>1 reduce 0", "", 1))


def test_what_is_remembered_follows_the_parameter_from_bucket_to_bucket() -> None:
    a, b, c = _parameters(1, 2, 3)
    memory = ParameterMemory()
    memory.of([c, b])[0].tensors["residual"] = torch.ones(3)
    assert memory.of([a, c])[1].tensors["residual"].tolist() == [1.0] * 3
    again = ParameterMemory()
    again.load_state_dict(memory.state_dict())
    assert again.of([c])[0].tensors["residual"].tolist() == [1.0] * 3
    with pytest.raises(InputError, match=r"parameter '1' has shape \(1,\), but \(2,\) was loaded"):
        again.of([a])
    named = ParameterMemory([("a", a), ("b", b)])
    named.of([b])[0].averaged = 7
    other = ParameterMemory([("b", b), ("a", a)])
    other.load_state_dict(named.state_dict())
    assert other.of([b])[0].averaged == 7
    with pytest.raises(InputError, match="not among the named ones"):
        other.of([c])
    with pytest.raises(InputError, match=r"\['b'\], which this model has not"):
        ParameterMemory([("a", a)]).load_state_dict(named.state_dict())


def test_overlapping_times_count_once() -> None:
    assert covered([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 2.0)]) == 4.0
    assert covered([]) == 0.0


def test_similar_sizes_share_a_plan() -> None:
    assert size_classes([100, 90, 60, 49, 30, 3]) == [3, 49, 100]


def test_the_surface_is_sorted_and_there() -> None:
    assert sorted(wt.__all__) == wt.__all__
    assert all(getattr(wt, name) is not None for name in wt.__all__)
