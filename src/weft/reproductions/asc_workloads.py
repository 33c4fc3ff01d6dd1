"""The models of the ASC-WFBP paper, and when their gradients come.

How long both passes take the paper gives for ResNet-152. For the others Tables IV and V say what they take on one GPU: S is
32 (t_f + t_b) / T, and S_max (Equation 42) then gives t_f where sending takes longer than the backward pass. For DenseNet-201 it
does not, and the passes are taken to be as 1 to 2, as in ResNet-152. On the cluster they take longer, where the paper says so.

How the backward pass is spread over gradients the paper does not print; it profiles each layer on its GPUs. Here the real models
were profiled on two cores. There are other ways: by operations, as a device would take that has memory, too, or partly evenly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from weft.overlap import Device, Workload
from weft.overlap.models import BY_FLOPS, MODELS, workload_of
from weft.overlap.models.inception import inception_v4
from weft.reproductions.asc_paper import GIVEN, PAPER, WORKERS

GPU = Device(13.45e12, 616e9)
"""The paper's RTX 2080 Ti, by its data sheet: operations and bytes of memory a second."""
BATCHES = dict.fromkeys(PAPER, 32) | {"bert-base": 64}
"""Table III"""
PASSES = Path(__file__).with_name("asc_passes.json")
"""The real models on two cores, with these batches: when each gradient was there; made by ``benchmarks/passes.py``."""
EVEN_PARTS = (0.25, 0.5, 0.75, 1.0)

Made = Callable[[str], Workload]


def passes(name: str) -> tuple[float, float]:
    """How long forward and backward take on one GPU: given by the paper, or derived from its tables."""
    if name in GIVEN:
        return GIVEN[name]
    paper = PAPER[name]
    longest = WORKERS * paper.compute / paper.most_speedup
    forward = longest - paper.least_communication
    if paper.most_speedup >= WORKERS:
        forward = paper.compute / 3
    return forward, paper.compute - forward


def workload(name: str, slower: float | None = None) -> Workload:
    """A model as profiled, computing as on the cluster, or slower than on one GPU by a factor."""
    return profiled(by_operations(name, slower), json.loads(PASSES.read_text())["models"][name])


def by_operations(name: str, slower: float | None = None, device: Device = BY_FLOPS) -> Workload:
    """The same with the backward pass spread as a device takes for each layer. For Inception-v4, too, images are 224 x 224."""
    layers = inception_v4(224) if name == "inception-v4" else MODELS[name]()
    factor = PAPER[name].slower if slower is None else slower
    forward, backward = passes(name)
    return workload_of(name, layers, factor * forward, factor * backward, device)


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


def ways(slower: float | None = None) -> Mapping[str, Made]:
    """As measured; by operations; by operations and memory; partly evenly, the rest by operations."""
    return {
        "a profile on two cores": partial(workload, slower=slower),
        "operations": partial(by_operations, slower=slower),
        "operations and memory": partial(by_operations, slower=slower, device=GPU),
        **{f"{part:.0%} evenly": partial(_partly_even, slower=slower, part=part) for part in EVEN_PARTS},
    }


def _partly_even(name: str, slower: float | None, part: float) -> Workload:
    return evened(by_operations(name, slower), part)


def slownesses() -> Mapping[str, Made]:
    """All models as slow as on one GPU, and as each model of which the paper says how slow it is on the cluster."""
    factors = {"one GPU": 1.0} | {name: paper.slower for name, paper in PAPER.items() if paper.saved is not None}
    return {
        f"{factor:.2f} times ({of}), {spread}": partial(made, slower=factor)
        for spread, made in (("profiled", workload), ("by operations", by_operations))
        for of, factor in factors.items()
    }
