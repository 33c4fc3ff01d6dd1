"""Joining the other workers: those that ``--workers`` started, those of torchrun, Slurm or emulate, or none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, Store, TCPStore

from weft.errors import ExecutionError, InputError
from weft.runtime.communicators import attend
from weft.training.environment import LISTENER, check_environment, is_launched, is_worker


@dataclass(frozen=True, slots=True)
class Place:
    """Who we are among the workers, and where we compute."""

    rank: int
    world: int
    device: torch.device


@contextmanager
def joined(device: Literal["auto", "cpu", "cuda"]) -> Iterator[Place]:
    """The process group of all workers, for as long as the training takes."""
    check_environment(os.environ)
    chosen = _device(device)
    backend = "nccl" if chosen.type == "cuda" else "gloo"
    try:
        if is_launched(os.environ):
            rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            dist.init_process_group(backend, store=_own_store(rank, world), rank=rank, world_size=world)
        elif is_worker(os.environ):
            dist.init_process_group(backend)
        else:
            dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise ExecutionError(f"rank {os.environ.get('RANK', 0)} cannot join the others at {where}: {error}") from error
    attend()
    place = Place(dist.get_rank(), dist.get_world_size(), chosen)
    try:
        yield place
    except Exception as error:
        # After a failure others may still be inside; what is left then ends with the process.
        if place.world == 1 or isinstance(error, InputError):
            dist.destroy_process_group()
        raise
    dist.destroy_process_group()


def _own_store(rank: int, world: int) -> Store:
    """The store of workers that ``--workers`` started; rank 0 inherits the socket, so nobody can take the port between."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank:
        return TCPStore(host, port, world, is_master=False)
    return TCPStore(host, port, world, is_master=True, master_listen_fd=int(os.environ[LISTENER]))


def _device(wanted: Literal["auto", "cpu", "cuda"]) -> torch.device:
    local = int(os.environ.get("LOCAL_RANK", "0"))
    workers_here = int(os.environ.get("LOCAL_WORLD_SIZE", local + 1))
    if wanted == "cuda" and torch.cuda.device_count() <= local:
        raise InputError(f"training.device: there is no GPU {local} here, only {torch.cuda.device_count()}; take cpu")
    if wanted == "cpu" or torch.cuda.device_count() < max(1, workers_here):
        return torch.device("cpu")
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
