"""ASC-WFBP (Shi, Chu and Li 2021), Section VI: Tables III, IV and V and Figure 6, on the step simulator."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from weft.overlap import (
    Arrangement,
    CommunicationModel,
    Step,
    Workload,
    asc_wfbp,
    least_seconds,
    mg_wfbp,
    most_speedup,
    one_bucket,
    search,
    step,
    wfbp,
)
from weft.overlap.arrangement import arranged
from weft.reproductions.asc_paper import LINK_RATE, NETWORK, PAPER, WIDE_NETWORK, WORKERS
from weft.reproductions.asc_workloads import workload
from weft.reproductions.findings import Progress, silent

SCHEDULERS = ("wfbp", "wfbp_by_layer", "mg_wfbp", "asc_wfbp", "one_bucket", "search", "search_wide")


@dataclass(frozen=True, slots=True)
class Row:
    """One model: seconds and buckets of every scheduler, and the limits."""

    name: str
    tensors: int
    parameters: int
    forward: float
    backward: float
    alone: float
    """what both passes take on one GPU, which speedups refer to"""
    seconds: dict[str, float]
    buckets: dict[str, int]
    most_speedup: float
    """S_max, by the link's rate"""
    least: float
    """what the paper's own model of communication allows at best, by any schedule"""

    @property
    def compute(self) -> float:
        return self.forward + self.backward

    def speedup(self, scheduler: str) -> float:
        return WORKERS * self.alone / self.seconds[scheduler]

    def exposed(self, scheduler: str) -> float:
        return self.seconds[scheduler] - self.compute

    def off(self, scheduler: str) -> float:
        """How far from Table IV."""
        return float(self.seconds[scheduler] / getattr(PAPER[self.name], scheduler) - 1)


def wfbp_by_layer(workload: Workload, model: CommunicationModel) -> Arrangement:
    """WFBP with one message for every layer: a weight and its bias together."""
    del model
    layers = [workload.tensors[place].name.rpartition(".")[0] for place in workload.order]
    ends = [place for place, (own, other) in enumerate(pairwise([*layers, ""]), 1) if own != other]
    return arranged(workload.order, ends, 1)


def rows(
    progress: Progress = silent,
    network: CommunicationModel = NETWORK,
    wide: CommunicationModel = WIDE_NETWORK,
    slower: float | None = None,
) -> list[Row]:
    """All four models, computing as on the cluster, or slower than on one GPU by a factor."""
    found: list[Row] = []
    for name in PAPER:
        progress(len(found), len(PAPER))
        found.append(_row(workload(name, slower), network, wide))
    return found


def _row(work: Workload, network: CommunicationModel, wide: CommunicationModel) -> Row:
    """One model under every scheduler."""
    alone = workload(work.name, slower=1.0)
    steps: dict[str, Step] = {
        scheduler.__name__: step(work, scheduler(work, network), network)
        for scheduler in (wfbp, wfbp_by_layer, mg_wfbp, asc_wfbp, one_bucket, search)
    }
    steps["search_wide"] = step(work, search(work, wide), wide)
    return Row(
        work.name,
        len(work.tensors),
        work.elements,
        work.forward_seconds,
        work.backward_seconds,
        alone.compute_seconds,
        {name: found.seconds for name, found in steps.items()},
        {name: len(found.arrangement.buckets) for name, found in steps.items()},
        most_speedup(alone, 2 * 8 * work.nbytes / LINK_RATE, WORKERS),
        least_seconds(work, network),
    )
