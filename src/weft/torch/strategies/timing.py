"""How long groups took, from what all ranks have measured; and the strategy that follows from it, the same on all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from weft.groups import Pattern
from weft.runtime import together
from weft.strategies import Averaging, meetings_of
from weft.torch.strategies.playbook import Playbook

Seconds = list[float]
"""of communication on one rank, by step"""


def gathered_seconds(own: Sequence[float], device: torch.device, group: dist.ProcessGroup | None) -> list[Seconds]:
    """What every rank has measured, in the order of ranks; all call this together, with equally many steps."""
    mine = torch.tensor(own, dtype=torch.float64, device=device)
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    together.all_gather(parts, mine, group)
    return [part.tolist() for part in parts]


def group_seconds(pattern: Pattern, first: int, measured: Sequence[Seconds]) -> list[dict[int, float]]:
    """For every step from ``first`` on, how long each rank's group took.

    That is what its last member to come has measured, so the shortest: the others' time has waiting for it in it.
    """
    found: list[dict[int, float]] = []
    for offset in range(len(measured[0])):
        times: dict[int, float] = {}
        for group in pattern.round(first + offset).groups:
            took = min(measured[rank][offset] for rank in group)
            times |= dict.fromkeys(group, took)
        found.append(times)
    return found


def followed(strategy: Averaging, first: int, measured: Sequence[Seconds], playbook: Playbook) -> Averaging:
    """The strategy after the steps from ``first`` on; the same object where nothing changes."""
    seconds = group_seconds(strategy.pattern, first, measured)
    return strategy.adjusted(meetings_of(strategy.pattern, first, seconds, playbook.expected_of))
