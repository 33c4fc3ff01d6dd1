"""One rank of a test of training: ``python torch_rank.py MODE``, with torch.distributed's environment.

Everything is asserted here, on every rank; what a rank says is printed as JSON lines.
"""

from __future__ import annotations

import copy
import gc
import io
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Timer
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

import weft.torch as wt
from weft.collectives import COLLECTIVES, butterfly, parameter_server, ring
from weft.errors import AgreementError, ExecutionError, InputError, PeerError
from weft.network import Network, full_mesh, two_tier
from weft.planning import Plan

STEPS = 10
SMALL = 1_000
"""bytes of a bucket, so that small models have several"""


def say(**what: object) -> None:
    print(json.dumps({"rank": dist.get_rank(), **what}), flush=True)


class Tied(nn.Module):
    """An embedding whose weight is the last layer's too, and a part that is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.frozen = nn.Linear(16, 16).requires_grad_(False)
        self.hidden = nn.Linear(16, 16)
        self.out = nn.Linear(16, 11, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = (x[:, :4].abs() * 10).long() % 11
        made: torch.Tensor = self.out(torch.tanh(self.hidden(self.frozen(self.embed(words).mean(1)))))
        return made


class Forked(nn.Module):
    """Which of two branches is used depends on a number; a third never is."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(12, 12)
        self.branches = nn.ModuleList(nn.Linear(12, 11) for _ in range(3))
        self.chosen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.branches[self.chosen](torch.relu(self.stem(x)))
        return made


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 24), nn.Tanh(), nn.Linear(24, 11))


def cnn() -> nn.Module:
    """With batch norm, whose buffers are broadcast, and memory in channels-last order."""
    model = nn.Sequential(
        nn.Unflatten(1, (1, 3, 4)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(96, 11),
    )  # fmt: skip
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def made(kind: Callable[[], nn.Module], seed: int = 1) -> nn.Module:
    torch.manual_seed(seed + dist.get_rank())  # rank 0's parameters must win
    return kind()


def data(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(1000 * (step % 3) + dist.get_rank())  # few, so that they can be learned
    x = torch.randn(8, 12, generator=draw)
    return x, x[:, :11].argmax(1)


def curve(
    model: nn.Module,
    steps: int = STEPS,
    accumulate: int = 1,
    to_none: bool = True,
    each: Callable[[int], None] | None = None,
) -> list[float]:
    """The losses of a training, averaged over the ranks, and one in evaluation at the end."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    losses = []
    model.train()
    for step in range(steps):
        if each is not None:
            each(step)
        total = torch.zeros(())
        for part in range(accumulate):
            if part < accumulate - 1:
                with model.no_sync():  # type: ignore[operator]
                    total += backward(model, accumulate * step + part)
            else:
                total += backward(model, accumulate * step + part)
        optimizer.step()
        optimizer.zero_grad(set_to_none=to_none)
        losses.append(total)
    model.eval()
    with torch.no_grad():
        losses.append(nn.functional.cross_entropy(model(data(999)[0]), data(999)[1]))
    table = torch.stack(losses)
    dist.all_reduce(table)
    return table.tolist()


def backward(model: nn.Module, step: int) -> torch.Tensor:
    x, y = data(step)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.detach()


def close(a: list[float], b: list[float]) -> bool:
    return torch.allclose(torch.tensor(a), torch.tensor(b), rtol=2e-5, atol=1e-6)


def ways(size: int) -> dict[str, wt.Choice]:
    """Made by rank 0 for all: four processes that compile the same at once are slow."""
    return {
        name: wt.Choice.parse(text)
        for name, text in json.loads(from_rank_0(lambda: json.dumps(made_ways(size)))).items()
    }


def from_rank_0(make: Callable[[], str]) -> str:
    return wt.communicator().from_rank_0(make, 200)


def made_ways(size: int) -> dict[str, str]:
    network = two_tier(2, size // 2, oversubscription=2)
    given: dict[str, Any] = {
        "backend": "backend",
        "ring": ring(network),
        "rat": COLLECTIVES["rat"](network),
        "parameter-server": parameter_server(network),
        "forest": COLLECTIVES["forest"](network).segmented(2),
        "butterfly": butterfly(network),
        "several": [planned(network, nbytes) for nbytes in (1_000, 100_000)],
    }
    return {name: wt.Choice.of(way).to_text() for name, way in given.items()}


def planned(network: Network, nbytes: int) -> Plan:
    """A plan without a search, which takes long on a busy machine."""
    schedule = ring(network).segmented(2) if nbytes > 10_000 else butterfly(network)
    return Plan(network, nbytes, schedule, schedule.name, 2, 1.0, 0.5, "for a test", schedule)


def same_losses_as_ddp(rank: int, size: int) -> None:
    chosen = ways(size)
    for kind in (mlp, cnn, Tied):
        ours = made(kind)
        expected = curve(DistributedDataParallel(copy.deepcopy(ours), bucket_cap_mb=0.002))
        assert expected[-2] < 0.98 * expected[0] or kind is Tied, "the model learns, so that its losses say something"
        for name, way in chosen.items():
            if kind is Tied and name not in ("backend", "rat"):
                continue
            model = wt.DataParallel(copy.deepcopy(ours), way, bucket_bytes=SMALL if kind is Tied else 3 * SMALL)
            assert len(model.buckets) > 1
            found = curve(model)
            assert close(found, expected), (kind.__name__, name, found, expected)
            statistics = model.take_statistics()
            assert statistics.passes == STEPS
            assert statistics.bytes_sent > 0
            assert statistics.communication_seconds > 0
            assert model.take_statistics().passes == 0
    everybody: list[Any] = [None] * size
    dist.all_gather_object(everybody, [p.tolist() for p in model.parameters()])
    assert all(one == everybody[0] for one in everybody), "the ranks have the same parameters, to the bit"


def in_groups(rank: int, size: int) -> None:
    """Two models, each trained by half of the ranks."""
    groups = [dist.new_group(list(range(half, size, 2))) for half in range(2)]
    group = groups[rank % 2]
    for way in ("backend", ring(full_mesh(size // 2))):
        model: Any = wt.DataParallel(nn.Linear(3, 1, bias=False), way, group=group)
        model(torch.full((1, 3), float(rank))).sum().backward()
        mean = sum(range(rank % 2, size, 2)) / (size // 2)
        assert torch.allclose(model.module.weight.grad, torch.full((1, 3), mean))
        shared = model.module.weight.detach().clone()
        dist.broadcast(shared, rank % 2, group)
        assert torch.equal(shared, model.module.weight)


def accumulation_and_kept_memory(rank: int, size: int) -> None:
    start = made(mlp)
    for accumulate, to_none in ((3, True), (2, False), (1, False)):
        expected = curve(DistributedDataParallel(copy.deepcopy(start)), 5, accumulate, to_none)
        model = wt.DataParallel(copy.deepcopy(start), ring(full_mesh(size)), bucket_bytes=SMALL)
        assert close(curve(model, 5, accumulate, to_none), expected), (accumulate, to_none)
    with model.no_sync():
        model.zero_grad()
        backward(model, 77 + rank)
        assert model.take_statistics().passes == 5, "nothing is sent while gradients are accumulated"
    local = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    backward(model, 3)
    assert any(not torch.equal(a, p.grad) for a, p in zip(local, model.parameters(), strict=True) if p.grad is not None)


def gradients_in_buckets(rank: int, size: int) -> None:
    """A mean that can be computed by hand, with weights, and the memory in which it lies."""
    for way in ("backend", ring(full_mesh(size))):
        model: Any = wt.DataParallel(nn.Linear(3, 1, bias=False), way, weights=range(1, size + 1))
        model(torch.full((1, 3), float(rank))).sum().backward()
        mean = sum(r * (r + 1) for r in range(size)) / sum(range(1, size + 1))
        gradient = model.module.weight.grad
        assert gradient is not None
        assert torch.allclose(gradient, torch.full((1, 3), mean))
        kept = gradient.data_ptr()
        gradient.detach_()
        model.zero_grad(set_to_none=True)
        model(torch.ones(1, 3)).sum().backward()
        assert model.module.weight.grad.data_ptr() == kept
        assert torch.allclose(model.module.weight.grad, torch.ones(1, 3))


def unused_parameters(rank: int, size: int) -> None:
    schedule = ring(full_mesh(size))
    model: Any = wt.DataParallel(made(Forked), schedule, bucket_bytes=100)
    with pytest.raises(
        InputError, match=r"4 of 8 parameters had no part in the loss: 'branches.1.weight', 'branches.1.bias'"
    ):
        backward(model, 0)
    model.module.chosen = rank
    with pytest.raises(InputError, match=f"'branches.{1 - min(rank, 1)}.weight'"):  # and no rank hangs
        backward(model, 1)

    def choose(model: nn.Module) -> Callable[[int], None]:
        return lambda step: setattr(model.module, "chosen", (rank + step) % 2 if step % 3 else 0)

    start = made(Forked)
    ddp = DistributedDataParallel(copy.deepcopy(start), find_unused_parameters=True)
    expected = curve(ddp, each=choose(ddp))
    for way in (schedule, "backend"):
        model = wt.DataParallel(copy.deepcopy(start), way, bucket_bytes=100, unused="zeros")
        assert close(curve(model, each=choose(model)), expected)
        for ours, theirs in zip(model.parameters(), ddp.parameters(), strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6), "weight decay shows who had a gradient"
        assert model.module.branches[2].weight.grad is None


def dynamic_plans(rank: int, size: int) -> None:
    """Plans and buckets are exchanged between steps, and the losses stay; a difference between ranks is told to all."""
    start = made(cnn)
    expected = curve(DistributedDataParallel(copy.deepcopy(start)))
    model = wt.DataParallel(copy.deepcopy(start), "backend", bucket_bytes=SMALL)
    chosen = list(ways(size).values())
    count = len([p for p in model.parameters() if p.requires_grad])
    one = wt.Arrangement((wt.BucketRule(tuple(range(count))),))
    chain = wt.Arrangement(
        tuple(wt.BucketRule((k,), None if k == count - 1 else count - 2 - k) for k in reversed(range(count)))
    )
    mixed = wt.Arrangement((wt.BucketRule((0, count - 1)), wt.BucketRule(tuple(range(1, count - 1)), 0)))

    def change(step: int) -> None:
        model.use(chosen[step % len(chosen)])
        model.arrange([one, chain, mixed][step % 3])

    assert close(curve(model, each=change), expected)
    with pytest.raises(AgreementError, match="ranks are about to execute different things"):
        model.use("backend" if rank else ring(full_mesh(size)))
    model.use("backend")
    with pytest.raises(AgreementError, match="data-parallel training of"):
        wt.DataParallel(nn.Linear(3, 3 + (rank == 0)), "backend")
    with pytest.raises(InputError, match="exactly one bucket"):
        model.arrange(wt.Arrangement((wt.BucketRule((0,)),)))


def as_a_module(rank: int, size: int) -> None:
    start = made(cnn)
    model = wt.DataParallel(start, "backend")
    ddp = DistributedDataParallel(copy.deepcopy(start))
    assert model.module is start
    assert list(model.state_dict()) == list(ddp.state_dict())
    ddp.load_state_dict(model.state_dict())
    assert model.append.__self__ is start, "what the wrapper has not, the module may have"
    with pytest.raises(AttributeError, match="nothing"):
        _ = model.nothing
    with pytest.raises(InputError, match=r"copy model\.module"):
        copy.deepcopy(model)
    with pytest.raises(InputError, match="no parameter"):
        wt.DataParallel(nn.Flatten())
    assert "the backend's own all-reduce" in model.report()
    frozen = wt.DataParallel(Tied(), "backend")
    frozen.module.frozen.requires_grad_(True)
    with pytest.raises(InputError, match=r"'frozen.weight', 'frozen.bias' did not require a gradient"):
        frozen(data(0)[0])
    del model
    gc.collect()
    backward(start, 0)  # hooks of a wrapper that is gone do nothing


def broken_off(rank: int, size: int) -> None:
    """A backward pass that raises half way leaves the ranks out of step: that is said, not hidden."""
    model: Any = wt.DataParallel(made(mlp), ring(full_mesh(size)), bucket_bytes=SMALL)

    def interrupt(_: torch.Tensor) -> None:
        raise ArithmeticError("in the middle")

    hook = model.module[0].register_full_backward_pre_hook(lambda *_: interrupt(_[0]))
    with pytest.raises(ArithmeticError):
        backward(model, 0)
    hook.remove()
    with pytest.raises(ExecutionError, match="broken off after"):
        backward(model, 1)


def hooks(rank: int, size: int) -> None:
    start = made(cnn)
    network = full_mesh(size)
    reference = DistributedDataParallel(copy.deepcopy(start), bucket_cap_mb=0.002)
    expected = curve(reference)
    states = []
    for way in (ring(network).segmented(2), planned(network, 5_000), "backend"):
        ddp = DistributedDataParallel(copy.deepcopy(start), bucket_cap_mb=0.002)
        states.append(wt.HookState(way))
        ddp.register_comm_hook(states[-1], wt.comm_hook)
        assert close(curve(ddp), expected), way
        assert states[-1].take_statistics().bytes_sent > 0
    half = DistributedDataParallel(copy.deepcopy(start))
    half.register_comm_hook(None, default_hooks.fp16_compress_hook)
    roughly = curve(half)
    ddp = DistributedDataParallel(copy.deepcopy(start))
    ddp.register_comm_hook(wt.HookState(ring(network)), default_hooks.fp16_compress_wrapper(wt.comm_hook))
    assert torch.allclose(torch.tensor(curve(ddp)), torch.tensor(roughly), rtol=1e-2)
    apart = DistributedDataParallel(copy.deepcopy(start))
    apart.register_comm_hook(None, wt.noop_hook)
    assert not close(curve(apart), expected), "nothing is averaged"
    saved_and_loaded(states[1], start, expected)
    for wrapped in (lambda hook: hook, default_hooks.fp16_compress_wrapper):
        ddp = DistributedDataParallel(copy.deepcopy(start))
        ddp.register_comm_hook(Failing("backend"), wrapped(wt.comm_hook))
        with pytest.raises(RuntimeError, match="rank 7 is gone"):
            backward(ddp, 0)


class Failing(wt.HookState):
    """Averages that fail while they are on their way."""

    def launch(self, bucket: Any) -> Any:
        class Flight:
            def wait(self) -> None:
                raise ExecutionError("rank 7 is gone")

            def when_done(self, call: Callable[[], None]) -> None:
                Timer(0.05, call).start()

        return Flight()


def saved_and_loaded(state: wt.HookState, start: nn.Module, expected: list[float]) -> None:
    file = io.BytesIO()
    torch.save(state.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert len(loaded["parameters"]) == len(list(start.parameters()))
    assert {entry["averaged"] for entry in loaded["parameters"].values()} == {STEPS}, "by parameter, not by bucket"
    again = wt.HookState("backend")
    again.load_state_dict(loaded)
    assert again.averaging.choice.digest == state.averaging.choice.digest
    ddp = DistributedDataParallel(copy.deepcopy(start), bucket_cap_mb=0.002)
    ddp.register_comm_hook(again, wt.comm_hook)
    assert close(curve(ddp), expected)
    assert {entry["averaged"] for entry in again.state_dict()["parameters"].values()} == {2 * STEPS}
    shapes = [tuple(e["shape"]) for e in loaded["parameters"].values()]
    assert sorted(shapes) == sorted(tuple(p.shape) for p in start.parameters())
    other = wt.HookState("backend")
    other.load_state_dict(loaded)
    ddp = DistributedDataParallel(nn.Linear(12, 11))
    ddp.register_comm_hook(other, wt.comm_hook)
    with pytest.raises(Exception, match="this state is another model's"):
        backward(ddp, 0)


def measured_and_planned(rank: int, size: int) -> None:
    start = made(mlp)
    expected = curve(DistributedDataParallel(copy.deepcopy(start)), 5)
    model = wt.DataParallel(copy.deepcopy(start), network=full_mesh(size), bucket_bytes=SMALL)
    assert close(curve(model, 5), expected)
    decision = model.decision
    assert decision.trials
    assert decision.reasons
    everybody: list[Any] = [None] * size
    dist.all_gather_object(everybody, (decision.choice.digest, decision.reasons))
    assert all(one == everybody[0] for one in everybody)
    for trial in decision.trials:
        assert trial.kept == (trial.seconds <= 0.97 * trial.backend_seconds)
    if not any(trial.kept for trial in decision.trials):
        assert decision.choice == wt.Choice.of("backend") or all(w == "backend" for _, w in decision.choice.ways)
    say(decision=str(decision))
    probed = wt.DataParallel(copy.deepcopy(start), bucket_bytes=SMALL)
    assert close(curve(probed, 3), expected[:3] + curve(probed, 0))
    say(probed=str(probed.decision))
    before = [p.grad.clone() if p.grad is not None else None for p in model.parameters()]
    model.replan()
    assert [p.grad for p in model.parameters()] == before


def a_rank_dies(rank: int, size: int) -> None:
    """What the others get from backward, and when."""
    model = wt.DataParallel(made(mlp), ring(full_mesh(size)), bucket_bytes=SMALL)
    for step in range(3):
        backward(model, step)
    if rank == 1:
        os._exit(0)
    begun = time.monotonic()
    with pytest.raises(PeerError, match="rank 1") as raised:
        all(backward(model, step) is not None for step in range(1000))
    assert raised.value.culprits == (1,)
    assert time.monotonic() - begun < 20
    with pytest.raises(ExecutionError, match="broken off"):
        backward(model, 0)
    store = dist.distributed_c10d._get_default_store()
    store.set(f"rank {rank} knows", "")
    if rank == 0:  # which keeps the store
        store.wait(["rank 2 knows"], timedelta(seconds=30))
    say(good=True)
    os._exit(0)


def main_of(modes: dict[str, Any]) -> None:
    """Run the modes that the command line names, of this file or of one like it."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for name in sys.argv[1].split(","):
        begun = time.monotonic()
        modes[name](rank, size)
        say(passed=name, seconds=round(time.monotonic() - begun, 1))
    say(good=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main_of(globals())
