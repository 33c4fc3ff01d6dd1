"""all_reduce: a plan or a schedule, executed on the process group that is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, overload

import torch
import torch.distributed as dist

from weft.runtime.communicators import communicator
from weft.runtime.contribution import ReduceOp
from weft.runtime.running import Running
from weft.schedule import Schedule

if TYPE_CHECKING:
    from weft.network import Network
    from weft.planning import Plan


def plan(network: Network, nbytes: float, *, seconds: float = 10.0, group: dist.ProcessGroup | None = None) -> Plan:
    """The plan for a network and a size, the same on all ranks: rank 0 makes it in about so many seconds and hands it on."""
    from weft.planning import plan as planned
    from weft.planning.files import plan_of, plan_text

    made = communicator(group).from_rank_0(
        lambda: plan_text(planned(network, nbytes, seconds=seconds)), 60 + 10 * seconds
    )
    return plan_of(made, "rank 0's plan")


@overload
def all_reduce(
    tensor: torch.Tensor, plan: Plan | Schedule, op: ReduceOp = ..., *, weights: Sequence[float] | None = ...,
    group: dist.ProcessGroup | None = ..., timeout: float | None = ..., async_op: Literal[False] = ...,
) -> None: ...  # fmt: skip


@overload
def all_reduce(
    tensor: torch.Tensor, plan: Plan | Schedule, op: ReduceOp = ..., *, weights: Sequence[float] | None = ...,
    group: dist.ProcessGroup | None = ..., timeout: float | None = ..., async_op: Literal[True],
) -> Running: ...  # fmt: skip


def all_reduce(
    tensor: torch.Tensor,
    plan: Plan | Schedule,
    op: ReduceOp = "average",
    *,
    weights: Sequence[float] | None = None,
    group: dist.ProcessGroup | None = None,
    timeout: float | None = None,
    async_op: bool = False,
) -> Running | None:
    """Replace a tensor, on every rank, by the average or the sum of all ranks' tensors.

    All ranks call it in the same order with tensors of the same size and type; ``weights`` (one per rank, such as the sizes of
    their batches) make it a weighted average or sum. Ranks that do not participate in the schedule relay, and keep their
    tensor. With ``async_op`` it returns at once, with something to ``wait`` for; until then the tensor must not be touched.
    ``timeout`` (seconds) overrides the deadline that is otherwise made from measured times. If a rank fails, all raise
    ``weft.errors.PeerError``, and the tensor holds something in between.
    """
    running = communicator(group, tensor.device).launch(plan, tensor, op, weights, timeout, here=not async_op)
    if async_op:
        return running
    running.wait()
    return None
