"""One rank of a test of compressed training: ``python compress_rank.py NAME,...``, with torch.distributed's environment."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import weft.torch as wt
from torch_rank import Forked, main_of
from weft.collectives import ring
from weft.errors import InputError
from weft.network import full_mesh
from weft.sparse import Compression, ErrorFeedback, NotFiniteError, converse

SMALL = 2_000
RATE = 0.1


def mlp() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 11))


def backward(model: nn.Module, step: int, rank: int) -> float:
    draw = torch.Generator().manual_seed(1000 * (step % 3) + rank)
    x = torch.randn(8, 12, generator=draw)
    loss = nn.functional.cross_entropy(model(x), x[:, :11].argmax(1))
    loss.backward()  # type: ignore[no-untyped-call]
    return float(loss.detach())


@torch.no_grad()
def update(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.sub_(RATE * parameter.grad)
            parameter.grad = None


def alike(model: nn.Module, size: int) -> None:
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    everybody = [torch.empty_like(flat) for _ in range(size)]
    dist.all_gather(everybody, flat)
    assert all(torch.equal(flat, other) for other in everybody), "ranks have drifted apart"


class Ground:
    """The same training in this process: every rank's gradients one after the other, reduced in memory."""

    def __init__(self, model: nn.Module, compression: Compression, size: int) -> None:
        self.model, self.size = model, size
        self.feedbacks = [ErrorFeedback(compression, rank, size) for rank in range(size)]
        self.sent = {name: np.zeros(p.numel()) for name, p in model.named_parameters()}
        self.given = copy.deepcopy(self.sent)

    def step(self, steps: list[int], buckets: list[list[str]]) -> None:
        named = dict(self.model.named_parameters())
        gradients = []
        for rank in range(self.size):
            for step in steps:
                backward(self.model, step, rank)
            gradients.append({name: p.grad.clone() for name, p in named.items() if p.grad is not None})
            self.model.zero_grad()
        for names in buckets:
            layout = [(name, named[name].numel()) for name in names]
            flats = [torch.cat([own[name].reshape(-1) for name in names]).numpy() for own in gradients]
            talk = converse([f.part(flat, layout) for f, flat in zip(self.feedbacks, flats, strict=True)])
            result, at = torch.from_numpy(talk.results[0].dense(len(flats[0]))), 0
            for name in names:
                count = named[name].numel()
                named[name].grad = result[at : at + count].view_as(named[name]).clone()
                self.sent[name] += self.size * result[at : at + count].double().numpy()
                self.given[name] += sum(own[name].double().numpy().reshape(-1) for own in gradients)
                at += count
        update(self.model)

    def check_conservation(self) -> None:
        for name, given in self.given.items():
            left = sum(feedback.residual(name).astype(np.float64) for feedback in self.feedbacks)
            assert np.allclose(given, self.sent[name] + left, atol=1e-5), name


def names_of(model: wt.DataParallel) -> list[list[str]]:
    names = [name for name, _ in model.trained_parameters]
    return [[names[place] for place in rule.parameters] for rule in model.arrangement.buckets]


def same(model: wt.DataParallel, ground: Ground, rank: int) -> None:
    for ours, theirs in zip(model.parameters(), ground.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    kept = model.compress_state_dict()["feedback"]["parameters"]
    for name in ground.given:
        assert np.array_equal(kept[name]["residual"].numpy(), ground.feedbacks[rank].residual(name)), name


def arrangements(count: int) -> Iterator[wt.Arrangement]:
    yield wt.Arrangement((wt.BucketRule(tuple(reversed(range(count)))),))
    yield wt.Arrangement(tuple(wt.BucketRule((k,)) for k in reversed(range(count))))
    yield wt.Arrangement((wt.BucketRule((0, count - 1)), wt.BucketRule(tuple(range(1, count - 1)), 0)))


def same_bits_as_in_memory(rank: int, size: int) -> None:
    """In buckets of all kinds, which change between steps, with accumulation; and nothing is lost by any of it."""
    settings = [
        Compression(density=0.05),
        Compression(density=0.05, teams=2, values="bfloat16", per_layer=True),
        Compression(density=0.05, residuals="partial", warmup=3, momentum=0.5),
        Compression("topk-a", 0.05),
        Compression("ok-topk", 0.05),
    ]
    for compression in settings:
        model = wt.DataParallel(mlp(), bucket_bytes=SMALL, compress=compression)
        assert len(model.buckets) > 1
        ground = Ground(mlp(), compression, size)
        several = [None, *arrangements(len(model.trained_parameters))]
        for number in range(12):
            arrangement = several[number // 2 % len(several)]
            if number % 2 == 0 and arrangement is not None:
                before = model.compress_state_dict()["feedback"]["parameters"]
                model.arrange(arrangement)
                after = model.compress_state_dict()["feedback"]["parameters"]
                assert all(torch.equal(before[name]["residual"], after[name]["residual"]) for name in before)
            steps = [3 * number + part for part in range(1 + number % 3)]
            for step in steps:
                with nullcontext() if step == steps[-1] else model.no_sync():
                    backward(model, step, rank)
            update(model)
            ground.step(steps, names_of(model))
            same(model, ground, rank)
        if compression.residuals == "global" and not compression.momentum:
            ground.check_conservation()
        taken = model.take_compress_statistics()
        assert taken is not None
        assert taken.calls > 12
        assert model.take_statistics().bytes_sent == taken.bytes_sent > 0
        assert str(compression) in model.report()


def saved_and_restored(rank: int, size: int) -> None:
    """To the same bits, into other buckets too; and whatever does not fit is refused."""
    compression = Compression(density=0.05)
    model = wt.DataParallel(mlp(), bucket_bytes=SMALL, compress=compression)
    for step in range(5):
        backward(model, step, rank)
        update(model)
    saved = io.BytesIO()
    torch.save({"model": model.state_dict(), "compress": model.compress_state_dict()}, saved)
    expected = wt.DataParallel(copy.deepcopy(model.module), bucket_bytes=SMALL, compress=compression)
    again = wt.DataParallel(mlp(), bucket_bytes=SMALL, compress=compression)
    kept = torch.load(io.BytesIO(saved.getvalue()), weights_only=True)
    again.load_state_dict(kept["model"])
    again.load_compress_state_dict(kept["compress"])
    for step in range(5, 9):
        for one in (model, again, expected):
            backward(one, step, rank)
            update(one)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(model.parameters(), expected.parameters(), strict=True)), (
        "without what was left over it comes out otherwise"
    )
    with pytest.raises(InputError, match="compress as when it was saved"):
        wt.DataParallel(mlp(), "backend").load_compress_state_dict(kept["compress"])
    kept["compress"]["feedback"]["rank"] = rank + 1
    with pytest.raises(InputError, match="every rank loads its own"):
        again.load_compress_state_dict(kept["compress"])


def unused_and_weighted(rank: int, size: int) -> None:
    """Who used a parameter is told exactly, however few elements are sent; weights are those of a weighted average."""
    torch.manual_seed(3)
    start = Forked()
    plain: Any = wt.DataParallel(copy.deepcopy(start), "backend", bucket_bytes=100, unused="zeros")
    model: Any = wt.DataParallel(
        copy.deepcopy(start), bucket_bytes=100, unused="zeros", compress=Compression(density=1.0)
    )
    few: Any = wt.DataParallel(copy.deepcopy(start), unused="zeros", compress=Compression(density=1e-9))
    for step in range(6):
        for one in (plain, model, few):
            one.module.chosen = (rank + step) % 2 if step % 3 else 0
            backward(one, step, rank)
        for ours, theirs, other in zip(model.parameters(), plain.parameters(), few.parameters(), strict=True):
            assert (ours.grad is None) == (theirs.grad is None) == (other.grad is None)
            assert ours.grad is None or torch.allclose(ours.grad, theirs.grad, atol=1e-6)
        for one in (plain, model, few):
            update(one)
    weighted: Any = wt.DataParallel(
        nn.Linear(3, 1, bias=False), "backend", weights=range(1, size + 1), compress=Compression(density=1.0)
    )
    weighted(torch.full((1, 3), float(rank))).sum().backward()
    mean = sum(r * (r + 1) for r in range(size)) / sum(range(1, size + 1))
    assert torch.allclose(weighted.module.weight.grad, torch.full((1, 3), mean))


def not_finite(rank: int, size: int) -> None:
    """All ranks raise, and the next pass is as if nothing had been."""
    model: Any = wt.DataParallel(mlp(), bucket_bytes=SMALL, compress="spardl")
    backward(model, 0, rank)
    update(model)
    poisoned = [False]
    if rank == size - 1:
        model.module[0].weight.register_hook(lambda gradient: gradient * float("nan") if poisoned[0] else None)
    poisoned[0] = True
    with pytest.raises(NotFiniteError, match=f"rank {size - 1} is infinite or NaN at element .*0.weight"):
        backward(model, 1, rank)
    poisoned[0] = False
    model.zero_grad()
    backward(model, 2, rank)
    update(model)
    alike(model, size)


def tuned_and_late(rank: int, size: int) -> None:
    """Buckets are found out while training goes on, and averages may arrive late."""
    compression = Compression(density=0.1, teams="auto")
    model = wt.DataParallel(mlp(), overlap="search", compress=compression)
    late = wt.DataParallel(mlp(), bucket_bytes=SMALL, compress=Compression(density=0.1))
    optimizer = wt.LateOptimizer(late, torch.optim.SGD(late.parameters(), RATE))
    prompt = wt.DataParallel(mlp(), bucket_bytes=SMALL, compress=Compression(density=0.1))
    usual = torch.optim.SGD(prompt.parameters(), RATE)
    first = backward(model, 0, rank)
    update(model)
    for step in range(1, 30):
        last = backward(model, step, rank)
        update(model)
    assert model.overlap is not None
    assert "spardl" in model.report()
    assert last < first, "it learns"
    alike(model, size)
    for step in range(8):
        backward(late, step, rank)
        optimizer.step()
        optimizer.zero_grad()
        backward(prompt, step, rank)
        usual.step()
        usual.zero_grad()
    late.settle()
    assert all(torch.equal(a, b) for a, b in zip(late.parameters(), prompt.parameters(), strict=True))


def rounded(rank: int, size: int) -> None:
    """fp16 and bf16 by plans and without: nearly the losses of float32, half the bytes, the same bits everywhere."""
    plain = wt.DataParallel(mlp(), ring(full_mesh(size)), bucket_bytes=SMALL)
    expected = [trained(plain, step, rank) for step in range(10)]
    sent = plain.take_statistics().bytes_sent
    for name, way in (("fp16", "backend"), ("bf16", ring(full_mesh(size)).segmented(2)), ("bf16", "auto")):
        network = full_mesh(size) if way == "auto" else None
        model = wt.DataParallel(mlp(), way, bucket_bytes=SMALL, compress=name, network=network)
        found = [trained(model, step, rank) for step in range(10)]
        assert torch.allclose(torch.tensor(found), torch.tensor(expected), atol=3e-3 if name == "fp16" else 2e-2)
        assert found != expected
        alike(model, size)
        if way != "auto":
            assert model.take_statistics().bytes_sent == sent // 2
        assert model.take_compress_statistics() is None
        assert model.compress_state_dict() == {}
        assert {"fp16": "float16", "bf16": "bfloat16"}[name] in model.report()
    model = wt.DataParallel(mlp(), "backend", bucket_bytes=SMALL, compress="bf16")
    optimizer = wt.LateOptimizer(model, torch.optim.SGD(model.parameters(), RATE))
    for step in range(4):
        backward(model, step, rank)
        optimizer.step()
        optimizer.zero_grad()
    model.settle()
    alike(model, size)


def trained(model: nn.Module, step: int, rank: int) -> float:
    loss = torch.tensor(backward(model, step, rank))
    update(model)
    dist.all_reduce(loss)
    return float(loss)


def refused(rank: int, size: int) -> None:
    del rank
    with pytest.raises(InputError, match="compress='zip' is not known: it must be one of 'spardl'"):
        wt.DataParallel(mlp(), compress="zip")
    with pytest.raises(InputError, match="a plan says how whole gradients travel"):
        wt.DataParallel(mlp(), ring(full_mesh(size)), compress="spardl")
    with pytest.raises(InputError, match=f"{size} workers cannot be 3 teams"):
        wt.DataParallel(mlp(), compress=Compression(teams=3))
    model = wt.DataParallel(mlp(), bucket_bytes=SMALL, compress="ok_topk")
    for call in (lambda: model.use("backend"), model.replan):
        with pytest.raises(InputError, match="there is no plan to change"):
            call()


if __name__ == "__main__":
    main_of(globals())
