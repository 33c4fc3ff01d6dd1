"""One rank of a test of sparse synchronization on gloo: ``python sparse_rank.py MODE``, with torch.distributed's environment."""

from __future__ import annotations

import io
import json
import os
import sys
import time

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import weft.torch as wt
from weft.errors import AgreementError, ExecutionError, InputError
from weft.network import full_mesh
from weft.sparse import METHODS, Compression, ErrorFeedback, NotFiniteError, converse

LENGTH = 5_003


def say(**what: object) -> None:
    print(json.dumps({"rank": dist.get_rank(), **what}), flush=True)


def gradient(rank: int, step: int, length: int = LENGTH) -> torch.Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(1000 * step + rank))


def settings(size: int) -> list[Compression]:
    teams = [d for d in range(1, size + 1) if size % d == 0]
    found = [Compression(density=0.02, teams=d, values=v) for d in teams for v in ("float32", "bfloat16")]
    found += [Compression(name, 0.02) for name in METHODS if name != "gtopk" or size in (2, 4)]
    return [
        *found,
        Compression(density=1.0, teams=size, exchange="bruck"),
        Compression(density=0.02, momentum=0.5, warmup=2),
    ]


def same_as_in_memory(rank: int, size: int) -> None:
    """To the bit, for every method; and the number of bytes is that of the messages, each with its size."""
    for compression in settings(size):
        state = wt.SparseState(compression)
        feedbacks = [ErrorFeedback(compression, r, size) for r in range(size)]
        for step in range(2):
            tensor = gradient(rank, step)
            wt.sparse_all_reduce(tensor, state)
            talk = converse([f.part(gradient(r, step).numpy()) for r, f in enumerate(feedbacks)])
            expected = talk.results[0].dense(LENGTH)
            assert np.array_equal(tensor.numpy(), expected), compression
            assert np.array_equal(state.feedback.residual(), feedbacks[rank].residual()), compression
            taken = state.take_statistics()
            sent = [delivery for delivery in talk.deliveries if delivery.source == rank]
            assert taken.calls == 1
            assert taken.bytes_sent == sum(delivery.nbytes + 8 for delivery in sent), compression
            assert taken.computing_seconds > 0


def other_tensors(rank: int, size: int) -> None:
    """Shapes, strides and types of all kinds, several at once, and a network to choose teams for."""
    state = wt.SparseState(Compression(density=1.0, teams="auto"), network=full_mesh(size, latency=1e-3))
    whole = torch.arange(24.0).reshape(4, 6) + rank
    average = torch.arange(24.0).reshape(4, 6) + (size - 1) / 2
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        tensor = whole.to(dtype).clone()
        wt.sparse_all_reduce(tensor, state, name=str(dtype))
        assert torch.equal(tensor, average.to(dtype)), dtype
    assert state.team_choices[24].teams == size, "latency is all that counts"
    strided = torch.zeros(6, 8).t()[:, ::2]
    strided += torch.arange(8.0)[:, None] + rank
    wt.sparse_all_reduce(strided, state, "sum", name="strided")
    assert torch.allclose(strided, size * torch.arange(8.0)[:, None] + size * (size - 1) / 2)
    nothing = torch.zeros(0)
    wt.sparse_all_reduce(nothing, state, name="nothing")
    many = [torch.full((3000 + k,), float(rank + k)) for k in range(6)]
    flying = [wt.sparse_all_reduce(t, state, "sum", name=f"m{k}", async_op=True) for k, t in enumerate(many)]
    for k, running in enumerate(flying):
        running.wait()
        assert torch.equal(many[k], torch.full((3000 + k,), size * k + size * (size - 1) / 2)), k
    with pytest.raises(InputError, match=r"a tensor of torch\.int64 cannot be reduced"):
        wt.sparse_all_reduce(torch.zeros(3, dtype=torch.int64), state)


def numbers_that_are_none(rank: int, size: int) -> None:
    state = wt.SparseState(Compression(density=0.1))
    tensor = gradient(rank, 0, 100)
    wt.sparse_all_reduce(tensor, state, name="w")
    left = state.feedback.residual("w")
    tensor = gradient(rank, 1, 100)
    if rank == size - 1:
        tensor[42] = float("nan")
    before = tensor.clone()
    with pytest.raises(NotFiniteError, match=f"the gradient of rank {size - 1} is infinite or NaN at element 42"):
        wt.sparse_all_reduce(tensor, state, name="w")
    assert torch.equal(tensor.nan_to_num(), before.nan_to_num())
    assert np.array_equal(left, state.feedback.residual("w"))
    wt.sparse_all_reduce(gradient(rank, 2, 100), state, name="w")  # nothing is lost by it


def different_settings(rank: int) -> None:
    state = wt.SparseState(Compression(density=0.1 if rank else 0.2))
    with pytest.raises(AgreementError, match="about to execute different things"):
        wt.sparse_all_reduce(torch.ones(50), state)
    wt.sparse_all_reduce(torch.ones(50), wt.SparseState(Compression(density=0.1)))


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 11))


def losses(ddp: nn.Module, optimizer: torch.optim.Optimizer, rank: int, steps: range) -> list[float]:
    found = []
    for step in steps:
        x = torch.randn(8, 12, generator=torch.Generator().manual_seed(1000 * (step % 3) + rank))
        loss = nn.functional.cross_entropy(ddp(x), x[:, :11].argmax(1))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        found.append(float(loss.detach()))
    return found


def hooked(
    compression: Compression, steps: int
) -> tuple[nn.Module, torch.optim.Optimizer, wt.SparseState, list[float]]:
    inner = model()
    ddp = DistributedDataParallel(inner, bucket_cap_mb=0.01)
    state = wt.SparseState(compression, named_parameters=inner.named_parameters())
    ddp.register_comm_hook(state, wt.sparse_hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    return ddp, optimizer, state, losses(ddp, optimizer, dist.get_rank(), range(steps))


def training_with_a_hook(rank: int, size: int) -> None:
    """At full density as without; at a tenth it learns, ranks stay alike, and a checkpoint goes on as if nothing had been."""
    plain = DistributedDataParallel(model(), bucket_cap_mb=0.01)
    losses(plain, torch.optim.SGD(plain.parameters(), lr=0.2), rank, range(6))
    full, _, _, _ = hooked(Compression(density=1.0), 6)
    for a, b in zip(plain.parameters(), full.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    for compression in (Compression(density=0.1), Compression("topk-a", density=0.1, per_layer=True)):
        ddp, optimizer, state, before = hooked(compression, 12)
        assert state.take_statistics().calls > 12, "several buckets a step"
        saved = io.BytesIO()
        torch.save({"sparse": state.state_dict(), "model": ddp.module.state_dict()}, saved)  # type: ignore[union-attr]
        after = losses(ddp, optimizer, rank, range(12, 40))
        assert np.mean(after[-3:]) < 0.8 * np.mean(before[:3]), "it does not learn"
        flat = torch.cat([p.detach().reshape(-1) for p in ddp.parameters()])
        everybody = [torch.empty_like(flat) for _ in range(size)]
        dist.all_gather(everybody, flat)
        assert all(torch.equal(flat, other) for other in everybody)
        again, optimizer, state, _ = hooked(compression, 1)
        losses(again, optimizer, rank, range(2))  # buckets are rebuilt after the first pass: residuals move along
        kept = torch.load(io.BytesIO(saved.getvalue()), weights_only=True)
        again.module.load_state_dict(kept["model"])  # type: ignore[union-attr]
        state.load_state_dict(kept["sparse"])
        assert losses(again, optimizer, rank, range(12, 40)) == after


def work_for_ever(timeout: float) -> None:
    state = wt.SparseState(Compression(density=0.05), timeout=timeout)
    tensor = gradient(dist.get_rank(), 0)
    for step in range(1_000_000):
        begun = time.monotonic()
        try:
            wt.sparse_all_reduce(tensor, state)
        except ExecutionError as error:
            say(error=str(error), culprits=getattr(error, "culprits", None), seconds=time.monotonic() - begun)
            raise
        if step == 5:
            say(pid=os.getpid())


def main() -> None:
    mode = sys.argv[1]
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if mode == "results":
        same_as_in_memory(rank, size)
        other_tensors(rank, size)
        numbers_that_are_none(rank, size)
        different_settings(rank)
        training_with_a_hook(rank, size)
        dist.barrier()
        say(good=True)
    elif mode == "results only":
        same_as_in_memory(rank, size)
        dist.barrier()
        say(good=True)
    else:
        work_for_ever(float(mode))


if __name__ == "__main__":
    main()
