"""One rank of a test on gloo: ``python gloo_rank.py MODE``, with torch.distributed's environment. Prints JSON lines."""

from __future__ import annotations

import json
import os
import sys
import time

import torch
import torch.distributed as dist

import weft.torch as wt
from weft.collectives import COLLECTIVES, butterfly, ring
from weft.errors import AgreementError, ExecutionError
from weft.network import full_mesh
from weft.runtime import Communicator, ProcessGroupTransport


def say(**what: object) -> None:
    print(json.dumps({"rank": dist.get_rank(), **what}), flush=True)


def same_as_gloo(rank: int, size: int) -> None:
    """Every collective against the backend's own, and several at once."""
    network = full_mesh(size)
    for k, (name, collective) in enumerate(COLLECTIVES.items()):
        schedule = collective(network).segmented(1 + k % 3)
        draw = torch.Generator().manual_seed(100 * k + rank)
        ours = torch.randint(-50, 50, (3001 * k % 5000,), generator=draw).float()
        theirs = ours.clone()
        dist.all_reduce(theirs)
        wt.all_reduce(ours, schedule, "sum")
        assert torch.equal(ours, theirs), name
    schedules = [ring(network).segmented(4), butterfly(network)]
    many = [torch.full((20_000 + k,), float(rank + k), dtype=torch.bfloat16) for k in range(8)]
    flying = [wt.all_reduce(tensor, schedules[k % 2], "sum", async_op=True) for k, tensor in enumerate(many)]
    for k, (tensor, running) in enumerate(zip(many, flying, strict=True)):
        running.wait()
        assert torch.equal(tensor, torch.full_like(tensor, size * k + size * (size - 1) / 2)), k


def same_bits_again(rank: int, size: int) -> None:
    schedule = COLLECTIVES["double-binary-tree"](full_mesh(size)).segmented(3)
    results = []
    for _ in range(3):
        tensor = torch.randn(10_000, generator=torch.Generator().manual_seed(rank)) * 10.0**rank
        wt.all_reduce(tensor, schedule)
        results.append(tensor)
        everybody = [torch.empty_like(tensor) for _ in range(size)]
        dist.all_gather(everybody, tensor)
        assert all(torch.equal(other, results[0]) for other in everybody)


def planned_by_rank_0(size: int) -> None:
    plan = wt.plan(full_mesh(size, latency=1e-3 * (1 + dist.get_rank())), 1e6, seconds=0.5)
    tensor = torch.ones(100)
    wt.all_reduce(tensor, plan, "sum")
    assert torch.equal(tensor, torch.full((100,), float(size)))


def two_groups(size: int) -> None:
    """One group for messages to higher ranks, one for those to lower, as NCCL needs it."""
    transport = ProcessGroupTransport(dist.group.WORLD, "cpu", dist.new_group(list(range(size))))
    tensor = torch.ones(1000)
    Communicator(transport).launch(butterfly(full_mesh(size)), tensor, "sum").wait()
    assert torch.equal(tensor, torch.full((1000,), float(size)))


def disagreement(rank: int, size: int) -> None:
    try:
        wt.all_reduce(torch.ones(77), butterfly(full_mesh(size)) if rank == 1 else ring(full_mesh(size)))
    except AgreementError as error:
        say(disagreement=str(error))
    wt.all_reduce(torch.ones(5), ring(full_mesh(size)))  # nothing was sent, so nothing is lost


def work_for_ever(timeout: float) -> None:
    """All-reduce until somebody fails; say how that was told, and fail as a training script would."""
    schedule = ring(full_mesh(dist.get_world_size())).segmented(2)
    tensor = torch.ones(1_000_000)
    for step in range(1_000_000):
        begun = time.monotonic()
        try:
            wt.all_reduce(tensor, schedule, timeout=timeout)
        except ExecutionError as error:
            seconds = time.monotonic() - begun
            say(error=str(error), culprits=getattr(error, "culprits", None), seconds=seconds)
            raise
        if step == 5:
            say(pid=os.getpid())


def leave_in_flight(rank: int, size: int) -> None:
    """Rank 0 leaves while its execution waits for rank 1, which comes later."""
    schedule = ring(full_mesh(size))
    wt.all_reduce(torch.ones(1000), schedule)
    if rank == 0:
        wt.all_reduce(torch.ones(1000), schedule, async_op=True)
        sys.exit(3)
    time.sleep(1.5)
    try:
        wt.all_reduce(torch.ones(1000), schedule, timeout=20)
    except ExecutionError as error:
        say(error=str(error), culprits=getattr(error, "culprits", None))
        sys.exit(4)


def main() -> None:
    mode = sys.argv[1]
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if mode == "results":
        same_as_gloo(rank, size)
        same_bits_again(rank, size)
        planned_by_rank_0(size)
        two_groups(size)
        disagreement(rank, size)
        say(good=True)
        dist.barrier()
    elif mode == "leave":
        leave_in_flight(rank, size)
    else:
        work_for_ever(float(mode))


if __name__ == "__main__":
    main()
