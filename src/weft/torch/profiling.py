"""The workload of the model at hand, from steps that were recorded: what all ranks agree on."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import torch
import torch.distributed as dist

from weft.overlap import GradientTensor, Workload
from weft.runtime.turns import slowest
from weft.torch.recording import Recording


def profiled(
    names: Sequence[str],
    parameters: Sequence[torch.Tensor],
    recordings: Sequence[Recording],
    group: dist.ProcessGroup | None = None,
) -> Workload:
    """Medians over the steps, of which the slowest rank's count: an average waits for the last. Called by all ranks together."""
    own = [median(column) for column in zip(*(r.reached for r in recordings), strict=True)]
    return workload_of_times(names, parameters, slowest(own, group))


def workload_of_times(names: Sequence[str], parameters: Sequence[torch.Tensor], reached: Sequence[float]) -> Workload:
    """From the times at which the last rank was so far (``Recording.reached``).

    They all count from the begin of a step, which ranks have in common: a rank that is late in one pass may be early in the
    next, so that passes which are each as long as the slowest rank's would be too long together. The forward pass is timed
    as a whole; its parts are taken to be in proportion to those of the backward pass.
    """
    update, forwarded, *there = (max(0.0, at) for at in reached)
    ready = [max(0.0, at - forwarded) for at in there]
    order = sorted(range(len(names)), key=lambda place: (ready[place], -place))
    backward = [0.0] * len(names)
    before = 0.0
    for place in order:
        backward[place], before = ready[place] - before, ready[place]
    share = max(0.0, forwarded - update) / before if before > 0 else 0.0
    tensors = tuple(
        GradientTensor(name, p.numel(), seconds, seconds * share, p.element_size())
        for name, p, seconds in zip(names, parameters, backward, strict=True)
    )
    return Workload("the model", tensors, tuple(order), update)
