"""Who started us: torchrun, Slurm, weft emulate, ``--workers``, or a person. Nothing here imports torch.

Everybody but ``--workers`` speaks through the variables of torch's ``env://``: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and,
where there are GPUs, LOCAL_RANK. torchrun and weft emulate set them; under Slurm the job script does.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import InputError

LAUNCHER, LISTENER = "WEFT_LAUNCHER", "WEFT_LISTENER"
"""In a worker that ``--workers`` started: the process that did it, and rank 0's listening socket."""

SLURM_REMEDY = (
    "give every task its RANK and WORLD_SIZE, and all of them MASTER_ADDR and MASTER_PORT: "
    "srun bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID weft train ...'"
)


def is_launched(environment: Mapping[str, str]) -> bool:
    """Whether we are a worker that ``--workers`` started."""
    return LAUNCHER in environment


def is_worker(environment: Mapping[str, str]) -> bool:
    """Whether somebody has started us as one of several workers."""
    return "RANK" in environment and "WORLD_SIZE" in environment


def check_environment(environment: Mapping[str, str]) -> None:
    """Mistakes that would otherwise end in several trainings of one worker each, or in a long wait."""
    if not is_worker(environment):
        tasks = environment.get("SLURM_NTASKS", "1")
        if tasks != "1" and "SLURM_PROCID" in environment:
            raise InputError(f"Slurm runs {tasks} tasks, which would all train alone: {SLURM_REMEDY}")
        return
    for name in ("RANK", "WORLD_SIZE"):
        if not environment[name].isdecimal():
            raise InputError(f"{name} is {environment[name]!r} in the environment; it must be a whole number")
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in environment]
    if missing:
        raise InputError(
            f"RANK and WORLD_SIZE are in the environment, but {' and '.join(missing)} not: set them as torchrun does"
        )
