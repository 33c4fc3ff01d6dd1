"""Measured all-reduces: plans against the backend's own, in turn, within one run.

The machine may be busy with other things, so the two alternate and medians are compared. A connection that has been idle for
a while starts slowly, and in training none is idle for long: so each has a few turns in a row, of which the first does not count.
Before the turns that count, the results of the two are compared with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import torch
import torch.distributed as dist

from weft.errors import ExecutionError
from weft.planning import Plan
from weft.runtime import together
from weft.runtime.communicator import Communicator
from weft.runtime.turns import slowest, timed

WARM_UP = 2
"""Turns that connect and fill caches, and do not count."""
IN_A_ROW = 3
"""Turns that count, after one that does not."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a plan and the backend took for one size; medians in seconds."""

    plan: Plan
    weft_seconds: float
    backend_seconds: float
    weft_times: tuple[float, ...]
    backend_times: tuple[float, ...]
    paced: bool = False
    """whether the plan's connections held back"""


def measured(
    communicator: Communicator,
    plan: Plan,
    repeat: int,
    group: dist.ProcessGroup | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    paced: bool = False,
) -> Measured:
    """Time a plan and the backend's own all-reduce, on every rank alike."""
    tensor = torch.zeros(max(1, plan.nbytes // 4))
    _compare(communicator, plan, len(tensor), group)
    times: tuple[list[float], list[float]] = ([], [])
    ways: tuple[Callable[[], object], Callable[[], object]] = (
        lambda: communicator.launch(plan, tensor, "sum", here=True).wait(),
        lambda: dist.all_reduce(tensor, group=group),  # the rival, as it is without us
    )
    for _ in range(WARM_UP):
        for way in ways:
            timed(way, group)
    while len(times[0]) < repeat:
        if progress is not None:
            progress(len(times[0]), repeat)
        row = min(IN_A_ROW, repeat - len(times[0]))
        for taken, way in zip(times, ways, strict=True):
            taken += [timed(way, group) for _ in range(1 + row)][1:]
    ours, theirs = (tuple(slowest(taken, group)) for taken in times)
    return Measured(plan, median(ours), median(theirs), ours, theirs, paced)


def _compare(communicator: Communicator, plan: Plan, elements: int, group: dist.ProcessGroup | None) -> None:
    """Raise if the plan's sum is not the backend's. Whole numbers make that exact, whatever the order of adding."""
    draw = torch.Generator().manual_seed(dist.get_rank(group))
    ours = torch.randint(-1000, 1000, (elements,), generator=draw).float()
    theirs = ours.clone()
    communicator.launch(plan, ours, "sum", here=True).wait()
    together.all_reduce(theirs, group=group)
    if not torch.equal(ours, theirs):
        wrong = int((ours != theirs).nonzero()[0])
        raise ExecutionError(
            f"element {wrong} of the sum is {ours[wrong]:g} by {plan.collective} and {theirs[wrong]:g} by the backend; "
            "please report this with the plan file"
        )


def sizes_in_table(found: Sequence[Measured]) -> list[list[str]]:
    """Rows for people: how the two compare, and with the prediction and the bound."""
    from weft.units import format_bytes, format_seconds

    head = ["size", "weft", "backend", "faster", "predicted", "bound", "of the bound", "plan"]
    return [head] + [
        [
            format_bytes(m.plan.nbytes),
            format_seconds(m.weft_seconds),
            format_seconds(m.backend_seconds),
            f"{m.backend_seconds / m.weft_seconds:.2f}x",
            format_seconds(m.plan.seconds),
            format_seconds(m.plan.bound),
            f"{m.plan.bound / m.weft_seconds:.0%}",
            f"{m.plan.collective}, {m.plan.segments} segments",
        ]
        for m in found
    ]
