"""One rank of a test of what ranks do together besides executions: ``python together_rank.py MODE``, as ``torch_rank.py``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from torch import nn

import weft.torch as wt
from weft.errors import AgreementError, PeerError
from weft.network import full_mesh
from weft.runtime import Deadlines, communicators, together
from weft.runtime.costs import measured_costs
from weft.runtime.turns import slowest, timed
from weft.training.data import Data
from weft.training.evaluation import evaluated
from weft.training.joining import Place


def short() -> Deadlines:
    """Deadlines under which the roll is called after a bit more than a second."""
    return Deadlines(floor=3.2, factor=1.0, first=60.0, late=30.0, asked=3.2)


def everything_is_there(rank: int, size: int) -> None:
    together.barrier()
    sums, most = torch.full((3,), rank + 1.0), torch.tensor([rank, -rank])
    together.all_reduce(sums)
    together.all_reduce(most, dist.ReduceOp.MAX)
    assert sums.tolist() == [size * (size + 1) / 2] * 3
    assert most.tolist() == [size - 1, 0]
    later = torch.full((2,), float(rank))
    flying = together.all_reduce_later(later)
    flying.wait()
    assert later.tolist() == [size * (size - 1) / 2] * 2
    parts = [torch.empty(2) for _ in range(size)]
    together.all_gather(parts, torch.tensor([rank, 7.0]))
    assert [part.tolist() for part in parts] == [[other, 7.0] for other in range(size)]
    given = torch.tensor([rank + 5])
    together.broadcast(given)
    assert given.item() == 5
    assert together.gathered(b"x" * rank) == [b"x" * other for other in range(size)]
    group = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        given = torch.tensor([rank + 5])
        together.broadcast(given, group)
        together.barrier(group)
        assert given.item() == 5
        assert together.gathered(b"%d" % rank, group=group) == [b"0", b"%d" % (size - 1)]
    with pytest.raises(AgreementError, match="sum of 77 float32"):
        together.all_reduce(torch.ones(77 if rank else 78))
    together.barrier()  # nothing was sent, so nothing is lost


def stopped(rank: int, size: int, work: Callable[[], object], stop: Callable[[], object]) -> None:
    """The last rank stops in the middle of something; all others say so in time, and rank 0 ends it."""
    us, store = wt.communicator(), dist.distributed_c10d._get_default_store()
    us.deadlines = short()
    work()
    if rank == size - 1:
        store.set("pid", str(os.getpid()))
        stop()
    begun = time.monotonic()
    with pytest.raises(PeerError, match=f"rank {size - 1} does not answer") as raised:
        work()
    assert raised.value.culprits == raised.value.silent == (size - 1,)
    assert time.monotonic() - begun < 9
    store.set(f"{rank} knows", "")
    if rank == 0:  # which keeps the store
        store.wait([f"{other} knows" for other in range(size - 1)], timedelta(seconds=30))
        os.kill(int(store.get("pid")), signal.SIGKILL)
    os._exit(0)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def stopped_before_a_barrier(rank: int, size: int) -> None:
    stopped(rank, size, together.barrier, stop)


class Examples:
    """As much of ``Data`` as an evaluation needs."""

    test = range(30)

    def batch(self, _: object, indices: torch.Tensor, *__: object) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.ones(len(indices), 4), torch.zeros(len(indices), dtype=torch.int64)


def stopped_in_an_evaluation(rank: int, size: int) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    data, place = cast(Data, Examples()), Place(rank, size, torch.device("cpu"))

    def test() -> None:
        evaluated(model, data, place)

    def stop_in_the_middle() -> None:
        model.register_forward_hook(lambda *_: stop())
        test()

    stopped(rank, size, test, stop_in_the_middle)


def late_but_waited_for(rank: int, size: int) -> None:
    """The last rank needs longer than the deadline; somebody asks, and it answers."""
    wt.communicator().deadlines = short()
    together.barrier()
    for _ in range(2):
        if rank == size - 1:
            time.sleep(5.0)
        begun = time.monotonic()
        together.all_reduce(torch.ones(3))
        if rank != size - 1:
            assert time.monotonic() - begun > 4
            assert wt.communicator().transport.board.read(["roll"])[0], "nobody has asked"


def killed_at_a_barrier(rank: int, size: int) -> None:
    together.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    with pytest.raises(PeerError) as raised:
        together.barrier()
    assert raised.value.culprits == (size - 1,)
    assert time.monotonic() - begun < 8, "a closed connection is known at once"
    time.sleep(1.0)
    os._exit(0)


def companion(rank: int, size: int) -> None:
    """As if the group were NCCL's alone: all that travels in CPU memory takes another one, made once."""
    patch = pytest.MonkeyPatch()
    world = dist.group.WORLD
    patch.setattr(communicators, "_carries_cpu_tensors", lambda group: group is not world)
    patch.setattr(dist, "new_group", counted := Counted(dist.new_group))
    ours = communicators.carrier()
    assert ours is not world
    assert communicators.carrier() is ours is communicators.carrier(world)
    assert communicators.carrier(device="cuda") is world
    assert dist.get_backend(ours) == "gloo"
    everything = torch.tensor([float(rank)])
    together.all_reduce(everything, dist.ReduceOp.MAX)
    assert everything.item() == size - 1
    assert slowest([timed(lambda: None)])[0] < 10
    assert measured_costs(wt.communicator()).message_seconds > 0
    model: Any = wt.DataParallel(nn.Linear(64, 8), network=full_mesh(size), overlap=None)
    model(torch.ones(2, 64)).sum().backward()
    assert wt.communicator() is communicators.communicator(ours)
    assert counted.calls == 1
    patch.undo()


class Counted:
    """A function, and how often it was called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self.calls = function, 0

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.calls += 1
        return self._function(*given, **named)
