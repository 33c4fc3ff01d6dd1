"""One rank of a test of overlapped training: ``python overlap_rank.py MODE``, with torch.distributed's environment."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import weft.torch as wt
from torch_rank import backward, close, cnn, curve, data, made, main_of, mlp
from weft.collectives import butterfly, ring
from weft.network import full_mesh
from weft.overlap import SCHEDULERS
from weft.torch import racing, tuning

STEPS = 90
"""enough to tune and to go on"""


def quick() -> None:
    tuning.MEASURING, tuning.PROFILED, racing.MOST_ROUNDS = 0.3, 5, 3


def every_scheduler_has_ddps_losses(rank: int, size: int) -> None:
    quick()
    for kind in (mlp, cnn):
        start = made(kind)
        expected = curve(DistributedDataParallel(made(kind)), STEPS)
        for name in (*SCHEDULERS, "auto"):
            model = wt.DataParallel(made(kind), ring(full_mesh(size)), overlap=name)
            model.load_state_dict(DistributedDataParallel(start).state_dict())
            assert close(curve(model, STEPS), expected), (kind.__name__, name)
            assert model.overlap is not None
            assert model.settled_arrangement == model.arrangement
            assert model.overlap.proposal.scheduler == name or name == "auto"
            if name == "auto":
                ways = {proposal.way for proposal, _ in model.overlap.measured}
                assert len(ways) == 2, "the backend's own all-reduce was not tried"
            all_alike(str(model.arrangement))


def all_alike(text: str) -> None:
    texts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(texts, text)
    assert len(set(texts)) == 1, texts


def any_arrangement(draw: random.Random, gradients: int) -> wt.Arrangement:
    """Gradients in any order, in buckets of any size, each of which waits for any earlier one or for none."""
    order = draw.sample(range(gradients), gradients)
    cuts = sorted(draw.sample(range(1, gradients), draw.randrange(gradients)))
    pieces = [order[a:b] for a, b in zip([0, *cuts], [*cuts, gradients], strict=True)]
    return wt.Arrangement(
        tuple(
            wt.BucketRule(tuple(piece), draw.choice([None, *range(number)]) if number else None)
            for number, piece in enumerate(pieces)
        )
    )


def delayed(module: nn.Module, draw: random.Random) -> None:
    """Every gradient comes a little later, for a time of this rank's own."""

    def late(_: torch.Tensor) -> None:
        time.sleep(draw.random() * 0.004)

    for parameter in module.parameters():
        parameter.register_hook(late)  # type: ignore[no-untyped-call]


def any_arrangement_with_any_delays(rank: int, size: int) -> None:
    """Launches are in one order on all ranks whatever comes first where: nothing waits for ever, and averages are right."""
    same, own = random.Random(1), random.Random(100 + rank)
    module = nn.Sequential(*(nn.Linear(12 if i == 0 else 7, 7) for i in range(8)), nn.Linear(7, 11))
    delayed(module, own)
    model = wt.DataParallel(module, "backend", overlap=None)
    count = len(list(module.parameters()))
    for step in range(60):
        model.use(ring(full_mesh(size)) if step % 2 else "backend")
        model.arrange(any_arrangement(same, count))
        averages_are_right(model, step)


def averages_are_right(model: wt.DataParallel, step: int) -> None:
    x, y = data(step)
    alone = torch.autograd.grad(nn.functional.cross_entropy(model.module(x), y), list(model.module.parameters()))
    expected = [gradient.clone() for gradient in alone]
    for gradient in expected:
        dist.all_reduce(gradient)
    model.zero_grad()
    backward(model, step)
    for parameter, total in zip(model.module.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, total / dist.get_world_size(), rtol=1e-5, atol=1e-6)


def drift_is_noticed(rank: int, size: int) -> None:
    """Steps that begin to take much longer are tuned for again; nothing is lost meanwhile."""
    quick()
    tuning.WINDOW, tuning.REST = 8, 0.0
    pause = [0.02]  # so that noise is small beside it

    class Slow(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            time.sleep(pause[0])
            return x

    model = wt.DataParallel(nn.Sequential(mlp(), Slow()), "backend", overlap="auto")
    steps = until(model, lambda: model.overlap is not None, 0)
    before = model.overlap
    steps = until(model, lambda: False, steps, 2 * tuning.WINDOW)
    assert model.overlap is before
    pause[0] = 0.15
    steps = until(model, lambda: model.settled_arrangement is None, steps, 4 * tuning.WINDOW)
    assert model.settled_arrangement is None, "nobody noticed"
    steps = until(model, lambda: model.overlap is not before, steps)
    assert model.overlap is not None
    assert before is not None
    assert model.overlap.workload.compute_seconds > before.workload.compute_seconds + 0.1
    averages_are_right(model, steps)


def until(model: wt.DataParallel, done: Callable[[], bool], step: int, most: int = 120) -> int:
    for number in range(step, step + most):
        if done():
            return number
        backward(model, number)
        model.zero_grad()
    return step + most


def gradients_of_two_types(rank: int, size: int) -> None:
    quick()

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.types = [torch.float32, torch.float64] * 3
            self.parts = nn.ModuleList(nn.Linear(12, 12, dtype=dtype) for dtype in self.types)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for part, dtype in zip(self.parts, self.types, strict=True):
                x = torch.tanh(part(x.to(dtype)))
            return x.float()[:, :11]

    model = wt.DataParallel(Mixed(), "backend", overlap="one-bucket")
    until(model, lambda: model.overlap is not None, 0)
    assert len(model.buckets) == 2
    averages_are_right(model, 0)


def a_step_as_a_trace(rank: int, size: int) -> None:
    quick()
    model = wt.DataParallel(made(mlp), "backend", overlap="wfbp")
    assert model.step_trace() is None
    steps = until(model, lambda: model.overlap is not None, 0)
    until(model, lambda: False, steps, 2)
    trace = model.step_trace()
    assert trace is not None
    for name in ("measured", "predicted"):
        own = [span for span in trace.spans if span.worker.startswith(f"{name}: ")]
        assert sum(span.category == "bucket" for span in own) == len(model.buckets) == 6
        backwards = [span for span in own if span.category == "backward"]
        assert backwards
        assert all(span.end >= span.start for span in own)
        ready = max(span.end for span in backwards)
        assert max(span.end for span in own if span.category == "bucket") >= ready - 1e-9


class Attentive(nn.Module):
    """Attention uses the weights of a part that it never calls; the last layer's weight is used without its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(12, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.BatchNorm1d(16)
        self.out = nn.Linear(16, 11)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)[:, None]
        x = self.norm(self.attention(x, x, x)[0][:, 0])
        return nn.functional.linear(x, self.out.weight, self.out.bias)


def late_steps_are_the_same_steps(rank: int, size: int) -> None:
    """Losses and parameters are, to the bit, those of an optimizer that waits."""
    quick()
    makers: list[Callable[[Any], torch.optim.Optimizer]] = [
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
        lambda p: torch.optim.AdamW([{"params": p[:2], "lr": 0.01}, {"params": p[2:]}], 0.02),
    ]
    for kind in (mlp, Attentive):
        for make in makers:
            for way in ("backend", ring(full_mesh(size)).segmented(2), butterfly(full_mesh(size))):
                prompt, late = (trained(kind, make, way, is_late) for is_late in (False, True))
                assert prompt == late, (kind.__name__, way)


def trained(kind: Callable[[], nn.Module], make: Callable[[Any], torch.optim.Optimizer], way: Any, late: bool) -> Any:
    """Losses, and in the end parameters and the optimizer's state, with a rate that changes and a break for evaluation."""
    arrangement = wt.Arrangement(tuple(wt.BucketRule((p,)) for p in reversed(range(len(list(kind().parameters()))))))
    model = wt.DataParallel(made(kind), way, overlap=arrangement)
    optimizer = make(list(model.parameters()))
    if late:
        optimizer = wt.LateOptimizer(model, optimizer)
    rates = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    losses, was_late = [], 0
    for step in range(10):
        if step == 4:
            with model.no_sync():
                backward(model, 50)
        if step == 6:
            model.eval()
            for called in (model.module, model):
                losses.append(float(nn.functional.cross_entropy(called(data(7)[0]), data(7)[1]).detach()))
            model.train()
        losses.append(float(backward(model, step)))
        if step == 8:
            model.settle()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        was_late += model.is_late
        optimizer.step()
        rates.step()
        if step != 3:  # once gradients are added to those of the step before
            optimizer.zero_grad(set_to_none=step % 2 == 0)
    assert was_late == (8 if late else 0), was_late
    state = [value.tolist() for value in model.state_dict().values()]
    moments = [v.tolist() for s in optimizer.state_dict()["state"].values() for v in s.values() if torch.is_tensor(v)]
    return losses, state, moments


def late_steps_are_tuned_for(rank: int, size: int) -> None:
    """Proposals are tried as they will be used, and losses are DistributedDataParallel's all the time."""
    quick()
    ddp = DistributedDataParallel(made(mlp))
    ours = wt.DataParallel(made(mlp), ring(full_mesh(size)), overlap="auto")
    ours.load_state_dict(ddp.state_dict())
    losses: list[list[float]] = [[], []]
    late_before = late_after = 0
    for model, found in zip((ddp, ours), losses, strict=True):
        inner = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        optimizer = wt.LateOptimizer(ours, inner) if model is ours else inner
        for step in range(STEPS):
            found.append(float(backward(model, step)))
            late_before += ours.is_late and ours.settled_arrangement is None
            late_after += ours.is_late and ours.settled_arrangement is not None
            optimizer.step()
            optimizer.zero_grad()
    assert close(*losses)
    assert late_before > tuning.STEPS, "only one proposal had its turn late"
    assert late_after > 10
    assert ours.overlap is not None
    assert len(ours.overlap.measured) > 1


def late_passes_let_others_launch(rank: int, size: int) -> None:
    """Two late models and other averages take turns, each rank in its own time: what is averaged with what does not change."""
    draw = random.Random(rank)
    whole = ring(full_mesh(size))
    prompt, late = (
        [wt.DataParallel(made(kind), whole, overlap=None, bucket_bytes=600) for kind in (mlp, Attentive)] for _ in "ab"
    )
    for models in (prompt, late):
        optimizers: list[torch.optim.Optimizer] = [torch.optim.SGD(m.parameters(), 0.1, momentum=0.9) for m in models]
        if models is late:
            optimizers = [wt.LateOptimizer(m, o) for m, o in zip(models, optimizers, strict=True)]
        for step in range(12):
            for model, optimizer in zip(models, optimizers, strict=True):
                backward(model, step)
                time.sleep(draw.choice([0.0, 0.002, 0.01]))
                optimizer.step()
                optimizer.zero_grad()
                ranks = torch.full((50,), float(rank))
                wt.all_reduce(ranks, whole, "sum")
                assert ranks.tolist() == [size * (size - 1) / 2] * 50
                assert model.is_late == (models is late and step > 0)
    for one, other in zip(prompt, late, strict=True):
        assert [v.tolist() for v in one.state_dict().values()] == [v.tolist() for v in other.state_dict().values()]


if __name__ == "__main__":
    main_of(globals())
