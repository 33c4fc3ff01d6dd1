"""ASC-WFBP (Shi, Chu and Li 2021), Section VI: Tables III, IV and V and Figure 6, on the step simulator.

The paper gives its network (a, b, gamma for two at once, the link's rate), the sizes and, for ResNet-152, how long both passes
take. For the others Tables IV and V say it: S is 32 (t_f + t_b) / T, and S_max (Equation 42) then gives t_f where sending takes
longer than the backward pass. For DenseNet-201 it does not, and the passes are taken to be as 1 to 2, as in ResNet-152. How the
backward pass is spread over gradients the paper does not say: by operations, here; ``asc_readings`` has other ways.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.overlap import (
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
from weft.overlap.models import BY_FLOPS, MODELS, Device, workload_of
from weft.overlap.models.inception import inception_v4
from weft.reproductions.findings import Progress, silent

WORKERS = 32
A, B, GAMMA = 1.4e-3, 1.7e-9, 1.5
LINK_RATE = 9.43e9
"""Bits a second, by iperf3, as in Equation 43."""
NETWORK = CommunicationModel(A, B, (1.0, GAMMA))
WIDE_NETWORK = CommunicationModel(A, B, (1.0, *(GAMMA / 2 * m for m in range(2, 9))))
"""Up to eight at once, of which the paper says nothing: no more gets through than with two."""


@dataclass(frozen=True, slots=True)
class Paper:
    """What Tables III, IV and V say of one model."""

    millions: int
    tensors: int
    wfbp: float
    mg_wfbp: float
    asc_wfbp: float
    over_wfbp: float
    over_mg_wfbp: float
    most_speedup: float
    speedup: float

    @property
    def least_communication(self) -> float:
        """Equation 43: twice the gradients over the link."""
        return 2 * self.millions * 1e6 * 32 / LINK_RATE

    @property
    def compute(self) -> float:
        return self.speedup * self.asc_wfbp / WORKERS


PAPER = {
    "resnet-152": Paper(60, 467, 0.956, 0.710, 0.524, 1.82, 1.35, 17.5, 16.7),
    "densenet-201": Paper(20, 604, 0.778, 0.375, 0.314, 2.48, 1.20, 32.0, 22.3),
    "inception-v4": Paper(42, 449, 0.719, 0.510, 0.377, 1.91, 1.35, 17.2, 16.1),
    "bert-base": Paper(110, 206, 1.010, 1.062, 0.924, 1.09, 1.15, 11.5, 10.6),
}
GIVEN = {"resnet-152": (0.091, 0.182)}
SCHEDULERS = ("wfbp", "mg_wfbp", "asc_wfbp", "one_bucket", "search", "search_wide")


@dataclass(frozen=True, slots=True)
class Row:
    """One model: seconds and buckets of every scheduler, and the limits."""

    name: str
    tensors: int
    parameters: int
    forward: float
    backward: float
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
        return WORKERS * self.compute / self.seconds[scheduler]

    def exposed(self, scheduler: str) -> float:
        return self.seconds[scheduler] - self.compute

    def off(self, scheduler: str) -> float:
        """How far from Table IV."""
        return float(self.seconds[scheduler] / getattr(PAPER[self.name], scheduler) - 1)


def passes(name: str) -> tuple[float, float]:
    """How long forward and backward take: given by the paper, or derived from its tables."""
    if name in GIVEN:
        return GIVEN[name]
    paper = PAPER[name]
    longest = WORKERS * paper.compute / paper.most_speedup
    forward = longest - paper.least_communication
    if paper.most_speedup >= WORKERS:
        forward = paper.compute / 3
    return forward, paper.compute - forward


def workload(name: str, device: Device = BY_FLOPS) -> Workload:
    """A model of the paper; its images are 224 x 224 for Inception-v4 too."""
    layers = inception_v4(224) if name == "inception-v4" else MODELS[name]()
    return workload_of(name, layers, *passes(name), device)


def rows(progress: Progress = silent) -> list[Row]:
    """All four models."""
    found: list[Row] = []
    for name in PAPER:
        progress(len(found), len(PAPER))
        found.append(row_of(workload(name)))
    return found


def row_of(work: Workload, network: CommunicationModel = NETWORK, wide: CommunicationModel = WIDE_NETWORK) -> Row:
    """One model under every scheduler."""
    steps: dict[str, Step] = {
        scheduler.__name__: step(work, scheduler(work, network), network)
        for scheduler in (wfbp, mg_wfbp, asc_wfbp, one_bucket, search)
    }
    steps["search_wide"] = step(work, search(work, wide), wide)
    return Row(
        work.name,
        len(work.tensors),
        work.elements,
        work.forward_seconds,
        work.backward_seconds,
        {name: found.seconds for name, found in steps.items()},
        {name: len(found.arrangement.buckets) for name, found in steps.items()},
        most_speedup(work, 2 * 8 * work.nbytes / LINK_RATE, WORKERS),
        least_seconds(work, network),
    )
