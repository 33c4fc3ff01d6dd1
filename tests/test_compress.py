"""Gradients that take fewer bytes on the wire: schedules that round what they send, and DataParallel(compress=...) on gloo."""

from __future__ import annotations

import pytest
import torch

from processes import check_ranks
from ranks import reduced
from weft.collectives import COLLECTIVES
from weft.network import two_tier

SCRIPT = "compress_rank.py"
LENGTH = 10_007


def tensors(size: int) -> list[torch.Tensor]:
    return [torch.randn(LENGTH, generator=torch.Generator().manual_seed(rank)) for rank in range(size)]


@pytest.mark.parametrize("wire", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("racks", [2, 3])
def test_what_is_rounded_on_the_wire_is_the_same_everywhere_and_near_the_sum(
    racks: int, name: str, wire: torch.dtype
) -> None:
    schedule = COLLECTIVES[name](two_tier(racks, 2)).segmented(2)
    size = schedule.workers
    exact = torch.stack(tensors(size)).double().sum(0)
    found = reduced(schedule, tensors(size), op="sum", wire=wire)
    assert all(torch.equal(found[0], other) for other in found[1:])
    assert torch.equal(found[0], found[0].to(wire).float()), "whoever added it up has what was sent"
    unit = torch.finfo(wire).eps
    assert torch.allclose(found[0].double(), exact, rtol=0, atol=8 * unit * 2 * size)
    assert not torch.equal(found[0], exact.float())


def test_sums_in_float32_are_nearer_than_sums_in_the_type_that_is_sent() -> None:
    """A parameter server adds seven messages up: each addition in half precision rounds once more."""
    schedule = COLLECTIVES["parameter-server"](two_tier(2, 4))
    exact = torch.stack(tensors(8)).double().sum(0)
    for wire in (torch.float16, torch.bfloat16):
        ours = reduced(schedule, tensors(8), op="sum", wire=wire)[0].double()
        theirs = reduced(schedule, [tensor.to(wire) for tensor in tensors(8)], op="sum")[0].double()
        assert (ours - exact).norm() < 0.75 * (theirs - exact).norm()


def test_half_tensors_are_added_up_in_float32_too() -> None:
    schedule = COLLECTIVES["parameter-server"](two_tier(2, 4))
    given = [tensor.half() for tensor in tensors(8)]
    exact = torch.stack(given).double().sum(0)
    plain = reduced(schedule, [tensor.clone() for tensor in given], op="sum")[0]
    ours = reduced(schedule, [tensor.clone() for tensor in given], op="sum", wire=torch.float16)[0]
    assert ours.dtype == torch.float16
    assert (ours.double() - exact).norm() < 0.75 * (plain.double() - exact).norm()


def test_sparse_training_has_the_bits_of_memory_whatever_the_buckets() -> None:
    check_ranks(SCRIPT, 4, "same_bits_as_in_memory", "saved_and_restored")


def test_sparse_training_in_all_its_forms() -> None:
    check_ranks(SCRIPT, 2, "unused_and_weighted", "not_finite", "tuned_and_late", "refused")


def test_training_with_rounded_messages_is_nearly_that_in_float32() -> None:
    check_ranks(SCRIPT, 4, "rounded")
