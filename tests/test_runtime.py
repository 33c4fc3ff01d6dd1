"""Executing schedules, with all ranks in one process: results, types, sizes, order, and several at once."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from threading import Barrier

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ranks import communicators, on_every_rank, reduced
from strategies import random_networks
from weft import InputError, Network, ProofError, Schedule, Transfer, WeftError, verify
from weft.collectives import COLLECTIVES, butterfly, forest, halving_doubling, parameter_server, ring
from weft.network import full_mesh, two_tier
from weft.runtime import Communicator, Faults, LoopbackTransport, Pending, loopback, program_of
from weft.runtime.scratch import AHEAD, Scratch
from weft.runtime.threads import ThreadPool


@cache
def network_of(workers: int) -> Network:
    return full_mesh(workers) if workers % 2 else two_tier(2, workers // 2, oversubscription=4)


def whole_numbers(workers: int, elements: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Numbers whose sums are exact in every type, different everywhere."""
    draw = torch.Generator().manual_seed(elements)
    return [torch.randint(-9, 10, (elements,), generator=draw).to(dtype) for _ in range(workers)]


def uneven_numbers(workers: int, elements: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Numbers whose sums depend on the order of additions."""
    draw = torch.Generator().manual_seed(elements)
    return [(torch.randn(elements, generator=draw) * 10.0 ** (r % 5)).to(dtype) for r in range(workers)]


def assert_sum(tensors: list[torch.Tensor], schedule: Schedule, faults: Mapping[int, Faults] | None = None) -> None:
    want = torch.stack([tensors[r] for r in schedule.participants]).sum(0)
    for rank, tensor in enumerate(reduced(schedule, tensors, faults, op="sum")):
        assert rank not in schedule.participants or torch.equal(tensor, want), f"rank {rank}"


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("workers", range(1, 10))
@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_collective_sums_up(name: str, workers: int, segments: int) -> None:
    schedule = COLLECTIVES[name](network_of(workers)).segmented(segments)
    assert_sum(whole_numbers(workers, 211), schedule)


@pytest.mark.parametrize("elements", [0, 1, 2, 5])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_tensors_smaller_than_the_number_of_chunks(name: str, elements: int) -> None:
    assert_sum(whole_numbers(6, elements), COLLECTIVES[name](network_of(6)).segmented(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_every_type_is_summed_and_averaged(dtype: torch.dtype) -> None:
    schedule = halving_doubling(network_of(4))
    assert_sum(whole_numbers(4, 97, dtype), schedule)
    tensors = whole_numbers(4, 97, dtype)
    want = (torch.stack(tensors) / 4).sum(0)
    assert all(torch.equal(t, want) for t in reduced(schedule, tensors, op="average"))


def test_an_average_in_fp16_does_not_overflow_where_the_sum_would() -> None:
    tensors = [torch.full((8,), 49152.0, dtype=torch.float16) for _ in range(8)]
    assert all(torch.equal(t, torch.full((8,), 49152.0).half()) for t in reduced(ring(network_of(8)), tensors))


def test_tensors_that_are_not_contiguous_are_reduced_in_place() -> None:
    wholes = [torch.arange(60.0).reshape(6, 10) * (rank + 1) for rank in range(3)]
    views = [whole.t()[1:7:2] for whole in wholes]
    rest = [whole.t()[0:8:2].clone() for whole in wholes]
    want = sum((view.clone() for view in views), torch.zeros(3, 6))
    reduced(ring(network_of(3)), views, op="sum")
    for view, whole, before in zip(views, wholes, rest, strict=True):
        assert torch.equal(view, want)
        assert torch.equal(whole.t()[0:8:2], before), "what lies between was touched"


def test_gradients_that_need_gradients_can_be_reduced() -> None:
    tensors = [torch.full((5,), float(rank), requires_grad=True) for rank in range(3)]
    reduced(ring(network_of(3)), tensors, op="sum")
    assert all(torch.equal(t.detach(), torch.full((5,), 3.0)) for t in tensors)


def test_weights_make_a_weighted_average_and_sum() -> None:
    weights = [32.0, 32.0, 7.0, 0.0]
    tensors = [torch.full((9,), float(rank + 1), dtype=torch.float64) for rank in range(4)]
    want = sum(w * (rank + 1) for rank, w in enumerate(weights))
    for t in reduced(ring(network_of(4)), [t.clone() for t in tensors], op="sum", weights=weights):
        assert torch.equal(t, torch.full((9,), want, dtype=torch.float64))
    for t in reduced(ring(network_of(4)), tensors, weights=weights):
        torch.testing.assert_close(t, torch.full((9,), want / 71, dtype=torch.float64))


def test_workers_that_only_relay_keep_their_tensor() -> None:
    # Two workers that take part reach each other through a third alone.
    schedule = Schedule.of_transfers(
        3,
        2,
        [
            Transfer(0, 1, 0, "reduce"), Transfer(1, 2, 0, "reduce"), Transfer(2, 1, 0, "copy"), Transfer(1, 0, 0, "copy"),
            Transfer(2, 1, 1, "copy"), Transfer(1, 0, 1, "reduce"), Transfer(0, 1, 1, "copy"), Transfer(1, 2, 1, "copy"),
        ],
        participants=[0, 2],
    )  # fmt: skip
    verify(schedule)
    tensors = [torch.full((10,), 10.0**rank) for rank in range(3)]
    reduced(schedule, tensors, {1: Faults(delay=0.002)}, op="sum")
    assert torch.equal(tensors[0], torch.full((10,), 101.0))
    assert torch.equal(tensors[2], torch.full((10,), 101.0))
    assert torch.equal(tensors[1], torch.full((10,), 10.0))


@settings(max_examples=25, deadline=None)
@given(random_networks(most_workers=7), st.sampled_from(sorted(COLLECTIVES)), st.integers(1, 3), st.integers(0, 60))
def test_any_collective_on_any_network_with_inactive_workers(
    network: Network, name: str, slices: int, elements: int
) -> None:
    schedule = COLLECTIVES[name](network).sliced(slices)
    assert_sum(whole_numbers(schedule.workers, elements), schedule)


@pytest.mark.parametrize("name", ["ring", "butterfly", "halving-doubling", "double-binary-tree", "forest", "rat"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_ranks_get_the_same_bits_in_every_run_whatever_is_late(name: str, dtype: torch.dtype) -> None:
    schedule = COLLECTIVES[name](network_of(6)).segmented(2)
    first: torch.Tensor | None = None
    for seed in range(4):
        faults = {rank: Faults(delay=0.004, seed=seed) for rank in random.Random(seed).sample(range(6), 3)}
        for tensor in reduced(schedule, uneven_numbers(6, 100, dtype), faults if seed else None):
            first = tensor if first is None else first
            assert torch.equal(tensor.view(torch.uint8), first.view(torch.uint8))


@pytest.mark.parametrize("name", ["ring", "butterfly", "halving-doubling", "parameter-server", "forest"])
def test_additions_happen_in_the_order_of_the_list(name: str) -> None:
    schedule = COLLECTIVES[name](network_of(5)).segmented(2)
    tensors = uneven_numbers(5, 40)
    values = torch.stack(tensors).numpy().copy()
    cuts = schedule.boundaries(40)
    before = values.copy()
    for transfer, second in zip(schedule, schedule.exchanges, strict=True):
        part = slice(cuts[transfer.chunk], cuts[transfer.chunk + transfer.span])
        sent = (before if second else values)[transfer.source, part].copy()
        before = values.copy()
        values[transfer.destination, part] = sent + (
            values[transfer.destination, part] if transfer.op == "reduce" else np.float32(0)
        )
    for rank, tensor in enumerate(reduced(schedule, tensors, {0: Faults(delay=0.003)}, op="sum")):
        assert np.array_equal(tensor.numpy(), values[rank])


def test_a_send_is_not_overtaken_by_what_arrives_later_in_the_list() -> None:
    # Rank 0's own contribution goes to rank 1 late; rank 2's must not be in it, although it arrives first.
    schedule = Schedule.of_transfers(
        3,
        1,
        [
            Transfer(0, 1, 0, "reduce"), Transfer(2, 0, 0, "copy"), Transfer(0, 1, 0, "reduce"),
            Transfer(1, 0, 0, "copy"), Transfer(1, 2, 0, "copy"),
        ],
    )  # fmt: skip
    verify(schedule)
    assert program_of(schedule, 0, 5).incoming[0].guards == (0,)
    for _ in range(3):
        assert_sum(whole_numbers(3, 5), schedule, faults={0: Faults(delay=0.02)})


def test_several_schedules_in_flight_do_not_mix() -> None:
    schedules = [ring(network_of(4)).segmented(2), butterfly(network_of(4)), forest(network_of(4))]
    tensors = [[torch.full((50 + k,), float(k * 10 + rank)) for k in range(9)] for rank in range(4)]
    with communicators(4, {2: Faults(delay=0.003)}) as everybody:

        def work(rank: int) -> None:
            flying = [everybody[rank].launch(schedules[k % 3], tensors[rank][k], "sum") for k in range(9)]
            for running in random.Random(rank).sample(flying, 9):
                running.wait()
                assert running.done()

        assert on_every_rank(4, work) == [None] * 4
    for rank in range(4):
        for k in range(9):
            assert torch.equal(tensors[rank][k], torch.full((50 + k,), 40.0 * k + 6)), (rank, k)


class Untagged(LoopbackTransport):
    """A transport that ignores tags, as NCCL does."""

    keeps_tags_apart = False

    def send(self, tensor: torch.Tensor, peer: int, tag: int) -> Pending:
        return super().send(tensor, peer, 0)

    def receive(self, tensor: torch.Tensor, peer: int, tag: int) -> Pending:
        return super().receive(tensor, peer, 0)


def test_where_tags_are_ignored_schedules_follow_one_another() -> None:
    first, *_ = loopback(3)
    everybody = [Communicator(Untagged(first._hub, rank)) for rank in range(3)]
    schedules = [ring(network_of(3)).segmented(3), butterfly(network_of(3))]
    tensors = [[torch.full((60,), float(k * 10 + rank)) for k in range(6)] for rank in range(3)]

    def work(rank: int) -> None:
        flying = [everybody[rank].launch(schedules[k % 2], tensors[rank][k], "sum") for k in range(6)]
        for running in flying:
            running.wait()

    assert on_every_rank(3, work) == [None] * 3
    for communicator in everybody:
        communicator.close()
    assert all(torch.equal(tensors[r][k], torch.full((60,), 30.0 * k + 3)) for r in range(3) for k in range(6))


def test_what_rank_0_makes_reaches_all_and_so_does_its_failure() -> None:
    def made() -> str:
        return "a plan"

    def broken() -> str:
        raise InputError("no network")

    with communicators(3) as everybody:
        got = [""] * 3

        def work(rank: int) -> None:
            got[rank] = everybody[rank].from_rank_0(made, 5.0)
            everybody[rank].from_rank_0(broken, 5.0)

        errors = on_every_rank(3, work)
    assert got == ["a plan"] * 3
    assert isinstance(errors[0], InputError)
    assert all("no network" in str(error) and isinstance(error, WeftError) for error in errors)


def test_scratch_memory_is_bounded_and_reused() -> None:
    schedule = parameter_server(network_of(4)).segmented(50)
    elements = 1_000_000
    with communicators(4) as everybody:
        for _ in range(3):
            tensors = [torch.ones(elements) for _ in range(4)]
            work = lambda rank, tensors=tensors: everybody[rank].launch(schedule, tensors[rank], here=True).wait()  # noqa: E731
            assert on_every_rank(4, work) == [None] * 4
            used = [communicator.scratch.nbytes for communicator in everybody]
            largest = 4 * int(np.diff(schedule.boundaries(elements)).max())
            assert all(nbytes <= 3 * max(AHEAD, 2 * largest) for nbytes in used)
            assert any(used)
    first = Scratch().take(10, torch.device("cpu"))
    assert first.nbytes == 10


def test_a_buffer_that_is_too_small_makes_way() -> None:
    scratch = Scratch()
    scratch.give_back(scratch.take(10, torch.device("cpu")))
    assert scratch.take(20, torch.device("cpu")).nbytes == 20
    assert scratch.nbytes == 20


def test_copies_of_a_ring_are_received_in_place() -> None:
    program = program_of(ring(network_of(5)), 2, 100)
    assert [m.direct for m in program.incoming] == [m.copies for m in program.incoming]
    assert any(m.copies for m in program.incoming)
    assert not any(m.guards for m in program.incoming)


def test_both_sides_of_an_exchange_wait_for_their_sends() -> None:
    program = program_of(butterfly(network_of(2)), 0, 10)
    assert program.incoming[0].guards == (0,)
    assert not program.incoming[0].direct


def test_a_schedule_that_is_not_an_all_reduce_is_not_executed() -> None:
    schedule = Schedule.of_transfers(2, 1, [Transfer(0, 1, 0, "reduce")])
    with communicators(2) as everybody, pytest.raises(ProofError, match="contribution"):
        everybody[0].launch(schedule, torch.ones(3))


@pytest.mark.parametrize(
    ("tensor", "options", "message"),
    [
        (torch.ones(3, dtype=torch.int32), {}, "int32 cannot be reduced"),
        (torch.ones(3).to_sparse(), {}, "make it dense"),
        (torch.ones(3), {"op": "maximum"}, "must be 'average' or 'sum'"),
        (torch.ones(3), {"weights": [1.0]}, "1 weights for 2 ranks"),
        (torch.ones(3), {"weights": [1.0, -1.0]}, "none negative"),
        (torch.ones(3), {"weights": [0.0, 0.0]}, "not all zero"),
        (torch.ones(3), {"timeout": 0.0}, "timeout of 0.0 s"),
    ],
)
def test_what_cannot_be_reduced_is_refused(tensor: torch.Tensor, options: dict[str, object], message: str) -> None:
    with communicators(2) as everybody, pytest.raises(InputError, match=message):
        everybody[0].launch(ring(network_of(2)), tensor, **options)  # type: ignore[arg-type]


def test_a_schedule_for_other_ranks_is_refused() -> None:
    with communicators(2) as everybody, pytest.raises(InputError, match="for 3 ranks cannot run on 2"):
        everybody[0].launch(ring(network_of(3)), torch.ones(3))


def test_threads_are_reused_and_never_wait_for_one_another() -> None:
    pool = ThreadPool("test")
    barrier = Barrier(5)
    for _ in range(5):
        pool.run(lambda: void(barrier.wait(5)))
    assert pool.settled(5)
    before = pool._made
    pool.run(lambda: None)
    assert pool.settled(5)
    assert pool._made == before


def void(_: object) -> None:
    return None
