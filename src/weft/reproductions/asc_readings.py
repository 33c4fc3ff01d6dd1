"""Other readings of ASC-WFBP: other ways to spread the backward pass, and a link that carries no more than it can."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from weft.overlap import (
    CommunicationModel,
    Device,
    Scheduler,
    Workload,
    asc_wfbp,
    mg_wfbp,
    one_bucket,
    shared_link,
    step,
)
from weft.reproductions import asc
from weft.reproductions.asc import LINK_RATE, NETWORK, PAPER, A, Row
from weft.reproductions.findings import Progress, silent

GPU = Device(13.45e12, 616e9)
"""The paper's RTX 2080 Ti, by its data sheet: operations and bytes of memory a second."""
FITTED_MEMORY, FITTED_START = 160e9, 160e-6
"""Bytes a second, and seconds a layer and batch, with which the worst of the four models is nearest to Table IV."""
BATCHES = dict.fromkeys(PAPER, 32) | {"bert-base": 64}
"""Table III"""
PASSES = Path(__file__).with_name("asc_passes.json")
"""The real models on two cores, with these batches: when each gradient was there; made by ``benchmarks/passes.py``."""
EVEN_PARTS = (0.25, 0.5, 0.75, 1.0)
LINK = shared_link(A, 2 * 8 / LINK_RATE)
"""A ring that fills the link when it is alone: what b says, which is 2 / 9.43 Gbit/s."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One way to spread the backward pass: seconds of the greedy schedulers, by model."""

    how: str
    mg_wfbp: dict[str, float]
    asc_wfbp: dict[str, float]
    one_bucket: dict[str, float]

    def off(self, name: str, scheduler: str = "asc_wfbp") -> float:
        """How far a scheduler is from Table IV."""
        return float(getattr(self, scheduler)[name] / getattr(PAPER[name], scheduler) - 1)

    def worst(self, scheduler: str = "asc_wfbp") -> float:
        """The same for the model that is farthest."""
        return max(abs(self.off(name, scheduler)) for name in PAPER)


def ways() -> dict[str, Callable[[str], Workload]]:
    """By operations; as measured; by operations and memory; with starts of layers; partly evenly, the rest by operations."""
    measured = json.loads(PASSES.read_text())["models"]
    return {
        "operations": asc.workload,
        "a profile on two cores": lambda name: profiled(asc.workload(name), measured[name]),
        "operations and memory": lambda name: asc.workload(name, GPU),
        "operations, memory and starts, fitted": lambda name: asc.workload(name, _fitted(name)),
        **{f"{part:.0%} evenly": partial(_partly_even, part=part) for part in EVEN_PARTS},
    }


def spreads(
    progress: Progress = silent,
    beside: Scheduler = asc_wfbp,
    decided_with: CommunicationModel = NETWORK,
    network: CommunicationModel = NETWORK,
) -> list[Spread]:
    """MG-WFBP, and ``beside`` for ASC-WFBP, for every way to spread the backward pass."""
    found: list[Spread] = []
    made = ways()
    for how, of in made.items():
        progress(len(found), len(made))
        works = {name: of(name) for name in PAPER}
        times = [
            {name: step(work, scheduler(work, decided_with), network).seconds for name, work in works.items()}
            for scheduler in (mg_wfbp, beside, one_bucket)
        ]
        found.append(Spread(how, *times))
    return found


def _fitted(name: str) -> Device:
    return Device(GPU.flops, FITTED_MEMORY, FITTED_START / BATCHES[name])


def _partly_even(name: str, part: float) -> Workload:
    return evened(asc.workload(name), part)


def profiled(work: Workload, facts: dict[str, Any]) -> Workload:
    """The same with gradients that come when they were measured to, in passes as long as before."""
    ready = facts["ready"]
    order = tuple(sorted(range(len(ready)), key=lambda place: (ready[place], -place)))
    waits = dict(zip(order, (b - a for a, b in pairwise([0.0, *(ready[place] for place in order)])), strict=True))
    tensors = (replace(tensor, backward_seconds=waits[place]) for place, tensor in enumerate(work.tensors))
    found = replace(work, tensors=tuple(tensors), order=order)
    return found.scaled(work.forward_seconds, work.backward_seconds)


def evened(work: Workload, part: float) -> Workload:
    """The same with a part of the backward pass shared out evenly among gradients."""
    even = part * work.backward_seconds / len(work.tensors)
    tensors = (replace(t, backward_seconds=(1 - part) * t.backward_seconds + even) for t in work.tensors)
    return replace(work, tensors=tuple(tensors))


def link_rows(progress: Progress = silent) -> list[Row]:
    """All schedulers if two at once share the link that one alone fills: only starting is hidden."""
    found: list[Row] = []
    for name in PAPER:
        progress(len(found), len(PAPER))
        found.append(asc.row_of(asc.workload(name), LINK.limited(2), LINK))
    return found
