"""A schedule in two halves: each is executed on its own, and together they do what the whole does."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ranks import communicators, on_every_rank, reduced
from strategies import random_networks
from weft import Network, Schedule, Transfer, verify
from weft.collectives import COLLECTIVES, butterfly, ring
from weft.network import full_mesh, two_tier
from weft.runtime.halves import halves
from weft.schedule import COPY


def uneven_numbers(workers: int, elements: int) -> list[torch.Tensor]:
    """Numbers whose sums depend on the order of additions."""
    draw = torch.Generator().manual_seed(elements)
    return [torch.randn(elements, generator=draw) * 10.0 ** (r % 5) for r in range(workers)]


def by_halves(schedule: Schedule, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The second halves of two tensors are launched in the other order than the first."""
    both = halves(schedule)
    assert both is not None
    others = [tensor.clone() for tensor in tensors]
    with communicators(schedule.workers) as everybody:

        def work(rank: int) -> None:
            us = everybody[rank]
            pair = [tensors[rank], others[rank]]
            for running in [us.launch(both[0], tensor, "average") for tensor in pair]:
                running.wait()
            for running in [us.launch(both[1], tensor, "sum") for tensor in reversed(pair)]:
                running.wait()

        for error in on_every_rank(schedule.workers, work):
            if error is not None:
                raise error
    assert all(torch.equal(a, b) for a, b in zip(tensors, others, strict=True))
    return tensors


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("workers", [2, 3, 6, 8])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_both_halves_make_the_bits_of_the_whole(name: str, workers: int, segments: int) -> None:
    network = full_mesh(workers) if workers % 2 else two_tier(2, workers // 2, oversubscription=4)
    schedule = COLLECTIVES[name](network).segmented(segments)
    if halves(schedule) is None:
        assert not (schedule.op == COPY).any(), "only what copies nothing has no halves"
        return
    whole = reduced(schedule, uneven_numbers(workers, 211), op="average")
    parts = by_halves(schedule, uneven_numbers(workers, 211))
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))


@given(network=random_networks(), segments=st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_halves_of_plans_for_any_network(network: Network, segments: int) -> None:
    schedule = COLLECTIVES["rat"](network).segmented(segments)
    both = halves(schedule)
    if both is None:
        return
    first, second = (half.schedule for half in both)
    assert len(first) + len(second) == len(schedule)
    assert not (first.op == COPY).any()
    assert (second.op == COPY).all()


def test_a_reduction_that_depends_on_a_copy_keeps_a_schedule_whole() -> None:
    """Rank 0 sends its part to 1 as a copy into a chunk that 1 then passes on by adding it."""
    transfers = [
        Transfer(1, 0, 0, "reduce"), Transfer(0, 1, 0, "copy"), Transfer(1, 2, 0, "reduce"), Transfer(2, 1, 0, "copy"),
        Transfer(1, 0, 0, "copy"),
    ]  # fmt: skip
    schedule = Schedule.of_transfers(3, 1, transfers)
    verify(schedule)
    assert halves(schedule) is None


def test_what_copies_nothing_has_no_halves() -> None:
    assert halves(butterfly(full_mesh(4))) is None
    assert halves(ring(full_mesh(4))) is not None
