"""Rank 0 plans, and hands its plan to the others as the text of a plan file, which each proves for itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from weft.errors import ExecutionError, WeftError
from weft.planning import Plan
from weft.planning.files import plan_of, plan_text

PLANNED, FAILED = 0, 1


def handed_out(make: Callable[[], str], group: dist.ProcessGroup | None = None) -> str:
    """The text that rank 0 makes, on every rank. If making it fails there, all ranks raise the reason."""
    rank = dist.get_rank(group)
    code, text = PLANNED, b""
    problem: WeftError | None = None
    if rank == 0:
        try:
            text = make().encode()
        except WeftError as error:
            code, text, problem = FAILED, str(error).encode(), error
    head = torch.tensor([code, len(text)], dtype=torch.int64)
    dist.broadcast(head, group_src=0, group=group)
    code, length = (int(x) for x in head)
    body = torch.frombuffer(bytearray(text or bytes(length)), dtype=torch.uint8) if length else torch.empty(0)
    if length:
        dist.broadcast(body, group_src=0, group=group)
    if problem is not None:
        raise problem
    received = bytes(body.numpy().tobytes()).decode() if length else ""
    if code == FAILED:
        raise ExecutionError(f"rank 0 could not plan: {received}")
    return received


def agreed_plan(make: Callable[[], Plan], group: dist.ProcessGroup | None = None) -> Plan:
    """The plan that rank 0 makes, on every rank."""
    made: list[Plan] = []

    def text() -> str:
        made.append(make())
        return plan_text(made[0])

    found = handed_out(text, group)
    return made[0] if made else plan_of(found, "the plan of rank 0")
