"""One rank of a test of strategies: ``python strategy_rank.py MODE``, with torch.distributed's environment.

Everything is asserted here, on every rank. What strategies must compute is what the training in memory computes.
"""

from __future__ import annotations

import copy
import io
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import weft.torch as wt
from weft.collectives import ring
from weft.errors import InputError, PeerError
from weft.groups import EVERY
from weft.network import Network, two_tier
from weft.runtime import Deadlines
from weft.strategies import Averaging, Options
from weft.training.batches import Batches
from weft.training.config import Config, config_of
from weft.training.in_memory import MemoryTraining, memory_training
from weft.training.rates import optimizer_of, set_rate

CONFIG = """
[model]
name = "MODEL"
[data]
name = "digits"
[training]
batch = 8
epochs = 1
steps = STEPS
seed = 3
[optimizer]
OPTIMIZER
[strategy]
name = "NAME"
"""
SGD = "learning_rate = 0.05\nweight_decay = 0.001"
ADAM = 'name = "adamw"\nlearning_rate = 0.002'
PLAIN = 'learning_rate = 0.05\nmomentum = 0.0\nschedule = "constant"'
SMALL = 8_000
"""bytes of a bucket, so that small models have several"""


def network() -> Network:
    """Two racks of two, or one of two and one of one."""
    whole = two_tier(2, 2, 50e6, uplink=50e6)
    if dist.get_world_size() == 2:
        return two_tier(2, 1, 50e6, uplink=50e6)
    if dist.get_world_size() == 4:
        return whole
    from benchmarks.scenarios import without

    return without(whole, whole.workers[-1])


def config(name: str, steps: int, optimizer: str = SGD, model: str = "mlp", **more: object) -> Config:
    text = CONFIG.replace("NAME", name).replace("STEPS", str(steps)).replace("OPTIMIZER", optimizer)
    text = text.replace("MODEL", model) + "".join(
        f"{key} = {value!r}\n".replace("'", '"') for key, value in more.items()
    )
    return config_of(text, Path("job.toml"))


def in_memory(job: Config) -> MemoryTraining:
    training = memory_training(job, network())
    for _ in training.records():
        pass
    return training


def line(module: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


class Real:
    """The same training as one rank of several."""

    def __init__(self, job: Config, options: Options | None = None, **how: Any) -> None:
        twin = memory_training(job, network())
        self.batches: Batches = twin.batches
        self.rate = twin.rate
        self.module = twin.replicas.modules[dist.get_rank()]
        # Their memory belongs to the twin's table: a real worker has its own.
        self.module = copy.deepcopy(self.module)
        for parameter in self.module.parameters():
            parameter.data = parameter.data.clone()
            parameter.grad = None
        self.module.train()
        self.optimizer = optimizer_of(job.optimizer, self.module.parameters())
        self.model = wt.Synchronized(
            self.module,
            self.optimizer,
            job.strategy.name,
            options=options,
            network=network(),
            bucket_bytes=SMALL,
            **how,
        )

    def steps(self, first: int, last: int) -> None:
        for step in range(first, last):
            set_rate(self.optimizer, self.rate(step))
            self.optimizer.zero_grad()
            self.batches.backward(self.model, step, dist.get_rank())
            self.model.step()


def every_strategy_equals_memory() -> None:
    cases: list[tuple[str, str, str, Options | None, dict[str, Any]]] = [
        ("ds-sync", SGD, "mlp", None, {}),
        ("ds-sync", ADAM, "resnet-20", None, {}),
        ("ds-sync", SGD, "mlp", None, {"in_backward": False}),
        ("gossip", SGD, "mlp", None, {}),
        ("gossip", ADAM, "mlp", Options(graph="random", seed=3), {}),
        ("local-sgd", SGD, "mlp", Options(every=3), {}),
        ("bsp", SGD, "mlp", None, {"plan": "backend"}),
        ("ds-sync", SGD, "mlp", Options(parts=3), {}),
        ("ds-sync", ADAM, "resnet-20", Options(parts=5), {"in_backward": False}),
        ("gossip", SGD, "mlp", Options(parts=2), {}),
    ]
    for name, optimizer, model, options, how in cases:
        more: dict[str, object] = {}
        if options is not None:
            more = {"every": options.every, "graph": options.graph, "parts": options.parts}
        job = config(name, 11, optimizer, model, **more)
        expected = in_memory(job)
        real = Real(job, options, **how)
        real.steps(0, 11)
        real.model.settle()
        row = expected.replicas.table.data[dist.get_rank()]
        torch.testing.assert_close(line(real.module), row, rtol=1e-4, atol=2e-6, msg=f"{name} {how}")
        if expected.replicas.averages is None:
            assert real.model.averager is None or real.model.averager.averages is None
            continue
        with real.model.merged() as ensemble:
            assert ensemble
            mean = expected.replicas.averages.mean(dim=0)
            torch.testing.assert_close(line(real.module), mean, rtol=1e-4, atol=2e-6)
        torch.testing.assert_close(line(real.module), row, rtol=1e-4, atol=2e-6)


def halved_uplinks_equal_memory() -> None:
    """Groups across a slow uplink average halves of parameters, all others whole ones."""
    for model in ("mlp", "resnet-20"):
        job = config("ds-sync", 11, SGD, model)
        expected = memory_training(job, network())
        assert isinstance(expected.strategy, Averaging)
        expected.strategy = expected.strategy.as_known((), (0, 1), halved=(0, 1))
        assert expected.strategy.pattern.round(0).parted
        for _ in expected.records():
            pass
        real = Real(job)
        assert real.model.averager is not None
        real.model.averager.restore({"finished": 0, "measured": [], "averages": None, "slow": [[], [0, 1], [], [0, 1]]})
        assert real.model.averager.strategy.pattern.round(0).parted
        real.steps(0, 11)
        real.model.settle()
        row = expected.replicas.table.data[dist.get_rank()]
        torch.testing.assert_close(line(real.module), row, rtol=1e-4, atol=2e-6)
        assert real.model.averager.state()["slow"][3] == [0, 1]


def buffers_and_momentum_stay_own() -> None:
    job = config("ds-sync", 9, SGD, "resnet-20", ensemble=0.0)
    expected = in_memory(job)
    real = Real(job, Options(ensemble=0.0))
    real.steps(0, 9)
    real.model.settle()
    theirs = expected.replicas.modules[dist.get_rank()]
    for own, other in zip(real.module.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-5)
    before = [buffer.clone() for buffer in real.module.buffers()]
    mean = torch.stack([next(m.buffers()) for m in expected.replicas.modules]).mean(dim=0)
    assert not torch.allclose(mean, next(theirs.buffers()), rtol=1e-3)
    with real.model.merged() as ensemble:
        assert not ensemble
        torch.testing.assert_close(next(real.module.buffers()), mean, rtol=1e-3, atol=1e-5)
    for own, was in zip(real.module.buffers(), before, strict=True):
        assert torch.equal(own, was)


def resuming_gives_the_same_bits() -> None:
    for name, options in (("ds-sync", None), ("gossip", None), ("local-sgd", Options(every=4)), ("bsp", None)):
        how: dict[str, Any] = {"plan": "backend"} if name == "bsp" else {}
        whole = Real(config(name, 12), options, **how)
        whole.steps(0, 12)
        whole.model.settle()
        first = Real(config(name, 12), options, **how)
        first.steps(0, 5)
        file = io.BytesIO()
        torch.save(first.model.local_state(), file)
        file.seek(0)
        second = Real(config(name, 12), options, **how)
        second.model.load_local_state(torch.load(file, weights_only=True))
        second.steps(5, 12)
        second.model.settle()
        assert torch.equal(line(second.module), line(whole.module)), name
        ours, theirs = second.model.averager, whole.model.averager
        if ours is not None and theirs is not None and theirs.averages is not None:
            assert ours.averages is not None
            assert all(torch.equal(a, b) for a, b in zip(ours.averages, theirs.averages, strict=True))


def a_lost_rank_is_named_by_all() -> None:
    """The last rank is killed in the middle: all others raise, and name it."""
    name = os.environ["STRATEGY"]
    how: dict[str, Any] = {"plan": ring(network())} if name == "bsp" else {}
    real = Real(config(name, 400), Options(every=2), timeout=20.0, **how)
    last = dist.get_world_size() - 1
    begun = 0.0

    def train() -> None:
        nonlocal begun
        for step in range(400):
            begun = time.monotonic()
            real.steps(step, step + 1)
            if step == 20 and dist.get_rank() == last:
                real.model.settle()
                os.kill(os.getpid(), signal.SIGKILL)

    # Workers around servers are not in step, so who survives may not have had that many.
    with pytest.raises(PeerError) as caught:
        train()
    assert last in caught.value.culprits, str(caught.value)
    assert time.monotonic() - begun < 20.0
    time.sleep(3.0)  # rank 0 keeps the store in which the others read what happened
    os._exit(0)


def mistakes_are_named() -> None:
    job = config("ds-sync", 5)
    real = Real(job)
    real.steps(0, 2)
    real.batches.backward(real.model, 2, dist.get_rank())
    next(real.module.parameters()).grad.mul_(0.5)  # type: ignore[union-attr]
    with pytest.raises(InputError, match="in_backward=False"):
        real.model.step()
    # Everybody made the mistake, so the ranks are still in step.
    dist.barrier()
    real = Real(job)
    real.batches.backward(real.model, 0, dist.get_rank())
    with pytest.raises(InputError, match="no_sync"):
        real.batches.backward(real.model, 1, dist.get_rank())
    dist.barrier()
    once = Real(job)
    with pytest.raises(InputError, match="no strategy"):
        wt.Synchronized(once.module, once.optimizer, "ds-sink")
    with pytest.raises(InputError, match="active workers"):
        wt.Synchronized(once.module, once.optimizer, "ds-sync", network=two_tier(2, 5))


def accumulated_passes_are_one_step() -> None:
    """The same batch twice is, in plain SGD, one step at twice the rate."""
    twice, once = Real(config("ds-sync", 5, PLAIN)), Real(config("ds-sync", 5, PLAIN))
    with twice.model.no_sync():
        twice.batches.backward(twice.model, 0, dist.get_rank())
    twice.batches.backward(twice.model, 0, dist.get_rank())
    twice.model.step()
    set_rate(once.optimizer, 2 * once.rate(0))
    once.batches.backward(once.model, 0, dist.get_rank())
    once.model.step()
    once.model.settle()
    twice.model.settle()
    torch.testing.assert_close(line(twice.module), line(once.module))


def contention_is_followed_and_forgotten() -> None:
    """Measured times are replaced by those of a slow worker, and later of none: the pattern divides, and returns."""
    real = Real(config("ds-sync", 5), Options(ensemble=0.0))
    averager = real.model.averager
    assert averager is not None
    plain = averager.strategy.pattern
    slow = 1

    def measured(step: int, contended: bool) -> float:
        which = averager.strategy.pattern.round(step)
        group = which.group_of(dist.get_rank())
        return averager.playbook.expected.get(group, 0.0) * (2.5 if contended and slow in group else 1.0)

    seen = []
    for window in range(6):
        for step in range(window * EVERY, (window + 1) * EVERY):
            real.batches.backward(real.model, step % 20, dist.get_rank())
            real.optimizer.zero_grad()
            if (step + 1) % EVERY == 0:
                averager.settle()
                first = step + 1 - EVERY
                averager.measured = [measured(first + i, window in (1, 2)) for i in range(EVERY)]
            real.model.step()
        assert isinstance(averager.strategy, Averaging)
        contention = averager.strategy.contention
        assert contention is not None
        seen.append(contention.slow_workers)
    assert seen == [(), (slow,), (slow,), (slow,), (), ()], seen
    assert averager.strategy.pattern == plain
    assert [step for step, _ in real.model.adjustments] == [2 * EVERY, 5 * EVERY]


def servers_apply_everything() -> None:
    """SSP with a bound of 0 and without momentum adds the same numbers as in memory, in whatever order."""
    for servers in (0, 1, 2):
        job = config("ssp", 8, PLAIN, staleness=0, servers=servers)
        expected = in_memory(job)
        real = Real(job, Options(staleness=0, servers=servers or None))
        real.steps(0, 8)
        real.model.finish()
        bsp = in_memory(config("bsp", 8, PLAIN))
        torch.testing.assert_close(line(real.module), bsp.replicas.table.data[0], rtol=1e-4, atol=2e-6)
        assert expected.steps == 8
        dist.barrier()


def staleness_is_bounded() -> None:
    """A slow rank holds the others back, no nearer and no further than the bound says."""
    for bound in (0, 2):
        real = Real(config("ssp", 30, PLAIN), Options(staleness=bound))
        for step in range(24):
            if dist.get_rank() == 1:
                time.sleep(0.02)
            real.steps(step, step + 1)
        real.model.finish()
        served = real.model._served
        assert served is not None
        assert served.part is not None
        assert served.part.furthest == bound, served.part.furthest
        dist.barrier()
    free = Real(config("asp", 30, PLAIN))
    begun = time.monotonic()
    for step in range(12):
        if dist.get_rank() == 1:
            time.sleep(0.1)
        free.steps(step, step + 1)
    alone = time.monotonic() - begun
    assert (alone > 1.1) == (dist.get_rank() == 1), "nobody waits in asp"
    free.model.finish()
    dist.barrier()


def be_late() -> None:
    """Until somebody has asked who is there, and for longer than answers are awaited."""
    ends = time.monotonic() + 12.0
    while not wt.communicator().transport.board.read(["roll"])[0]:
        assert time.monotonic() < ends, "nobody has asked who is there"
        time.sleep(0.1)
    time.sleep(2.5)


def serving_goes_on_without_a_worker() -> None:
    """With one server, on rank 0, another worker may be lost; training goes on, and when others are late nobody misses it."""
    name = os.environ["STRATEGY"]
    real = Real(config(name, 60), Options(servers=1, staleness=1), timeout=20.0)
    wt.communicator().deadlines = Deadlines(floor=3.2, factor=1.0, asked=3.2)
    last = dist.get_world_size() - 1
    for step in range(30):
        if step == 10 and dist.get_rank() == last:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 20 and dist.get_rank() == 1:
            be_late()
        real.steps(step, step + 1)
    real.model.finish()
    served = real.model._served
    assert served is not None
    assert served.lost == ([last] if dist.get_rank() == 0 else [])
    time.sleep(0.5)
    os._exit(0)


def a_stopped_worker_is_named_by_all() -> None:
    """The last rank stops in the middle, and closes nothing; with one server it owns no part."""
    name, servers = os.environ["STRATEGY"], int(os.environ["SERVERS"])
    us, store = wt.communicator(), dist.distributed_c10d._get_default_store()
    real = Real(config(name, 60), Options(servers=servers, staleness=2))
    us.deadlines = Deadlines(floor=3.2, factor=1.0, asked=3.2)
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    real.steps(0, 10)
    real.model.pause()
    store.set(f"{rank} has paused", "")
    if rank == last:
        # What it serves to the others in a pause may still be on its way.
        store.wait([f"{other} has paused" for other in range(last)], timedelta(seconds=30))
        store.set("pid", str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    begun = time.monotonic()

    def train() -> None:
        while True:
            real.steps(10, 50)

    with pytest.raises(PeerError, match=f"rank {last} does not answer") as caught:
        train()
    assert caught.value.culprits == caught.value.silent == (last,)
    assert time.monotonic() - begun < 9.0
    with pytest.raises(PeerError, match=f"rank {last} does not answer"):
        real.model.finish()
    store.set(f"{rank} knows", "")
    if rank == 0:  # which keeps the store
        store.wait([f"{other} knows" for other in range(last)], timedelta(seconds=30))
        os.kill(int(store.get("pid")), signal.SIGKILL)
    os._exit(0)


def a_late_worker_is_waited_for() -> None:
    """One that tests for long is asked, answers, and is held against nobody."""
    real = Real(config("ssp", 60), Options(staleness=1))
    wt.communicator().deadlines = Deadlines(floor=3.2, factor=1.0, asked=3.2)
    real.steps(0, 5)
    if dist.get_rank() == 1:
        be_late()
    real.steps(5, 12)
    real.model.finish()


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in sys.argv[1].split(","):
        globals()[name]()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
