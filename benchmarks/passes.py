"""When the gradients of ASC-WFBP's four models are there, measured: the real models, on this machine's processors.

``weft reproduce asc`` spreads the paper's backward passes over gradients by operations; beside that it shows what this has
measured, scaled to as long as the paper's. Run ``python -m benchmarks.passes`` on an otherwise idle machine with 8 GB free.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from datetime import date
from statistics import median
from typing import Any

import torch
from torch.nn import functional

from benchmarks.large_models import LARGE_MODELS
from weft.files import write_atomically
from weft.overlap.models import bert
from weft.reproductions.asc_workloads import BATCHES, PASSES, by_operations

STEPS, SKIPPED = 8, 1
SIDE, TOKENS = 224, 64


def measured(name: str) -> dict[str, Any]:
    """Medians: the forward pass, and from its end on every gradient in the order of parameters, in milliseconds."""
    torch.manual_seed(0)
    model = LARGE_MODELS[name]()
    parameters = list(model.parameters())
    expected = [tensor.elements for tensor in by_operations(name).tensors]
    assert [p.numel() for p in parameters] == expected, f"{name} is not the built-in model"
    there = [0.0] * len(parameters)
    for place, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(_noting(there, place))  # type: ignore[no-untyped-call]
    forward, rows = [], []
    for step in range(STEPS):
        model.zero_grad()
        inputs = _inputs(name)
        begun = time.perf_counter()
        made = model(inputs)
        loss = sum(map(_loss, made if isinstance(made, tuple) else (made,)), torch.zeros(()))
        forwarded = time.perf_counter()
        loss.backward()  # type: ignore[no-untyped-call]
        print(f"{name} {step + 1}/{STEPS}: {time.perf_counter() - begun:.1f} s", file=sys.stderr)
        forward.append(forwarded - begun)
        rows.append([at - forwarded for at in there])
    ready = [round(1e3 * median(column), 3) for column in zip(*rows[SKIPPED:], strict=True)]
    return {"batch": BATCHES[name], "forward": round(1e3 * median(forward[SKIPPED:]), 3), "ready": ready}


def _noting(there: list[float], place: int) -> Any:
    def note(parameter: torch.Tensor) -> None:
        del parameter
        there[place] = time.perf_counter()

    return note


def _inputs(name: str) -> torch.Tensor:
    if name == "bert-base":
        return torch.randint(bert.VOCABULARY, (BATCHES[name], TOKENS))
    return torch.randn(BATCHES[name], 3, SIDE, SIDE)


def _loss(scores: torch.Tensor) -> torch.Tensor:
    rows = scores.flatten(0, -2)
    return functional.cross_entropy(rows, torch.randint(rows.shape[1], rows.shape[:1]))


def main() -> None:
    machine = f"{platform.machine()}, {torch.get_num_threads()} threads, PyTorch {torch.__version__}"
    facts = {"date": date.today().isoformat(), "machine": machine, "models": {n: measured(n) for n in LARGE_MODELS}}
    write_atomically(PASSES, json.dumps(facts) + "\n")
    print(f"written to {PASSES.name}")


if __name__ == "__main__":
    main()
