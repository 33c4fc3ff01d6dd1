"""Joining the other ranks by the environment (env://), as torchrun, Slurm scripts and weft emulate set it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

from weft.errors import InputError
from weft.runtime import together
from weft.runtime.communicators import attend

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@contextmanager
def joined(backend: str = "gloo") -> Iterator[int]:
    """Our rank, in a process group of all; it is left at the end, unless something failed: then others notice."""
    missing = [name for name in NEEDED if name not in os.environ]
    if missing:
        raise InputError(
            f"{', '.join(missing)} not in the environment: start this on every rank, with torchrun or weft emulate"
        )
    dist.init_process_group(backend)
    attend()
    yield dist.get_rank()
    together.barrier()
    dist.destroy_process_group()
