"""What a sparse call computes at one worker, on one core: VGG-16's 14.7 M gradients, density 1%, all methods.

Run with ``python -m benchmarks.sparse_compute`` on an otherwise idle machine. All workers run in this process; only the first
one's work is timed: adding its residual, selecting, adding up, putting into bytes and out of them, and its new residual.
Communication is not in it. The first calls, in which memory is new, are left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import numpy as np

from benchmarks.publishing import publish
from weft.reproductions.spardl import MODELS, Gradients
from weft.sparse import Compression, ErrorFeedback, Pairs, Part, converse
from weft.sparse.quota import share
from weft.sparse.selection import strongest

ELEMENTS, DENSITY = MODELS["vgg-16"], 0.01
SKIPPED, TIMED = 3, 5
WAYS = {
    "spardl": Compression("spardl", DENSITY),
    "spardl, 2 teams": Compression("spardl", DENSITY, teams=2),
    "spardl, B-SAG": Compression("spardl", DENSITY, teams=2, exchange="bruck"),
    "spardl, bfloat16": Compression("spardl", DENSITY, values="bfloat16"),
    "topk-a": Compression("topk-a", DENSITY),
    "topk-dsa": Compression("topk-dsa", DENSITY),
    "ok-topk": Compression("ok-topk", DENSITY),
}


class Stopwatch:
    """Adds up the times in which it was on."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def on(self) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - begun


def timed(part: Part[Pairs], watch: Stopwatch) -> Part[Pairs]:
    """The same part, its own work timed."""
    arrived = None
    while True:
        with watch.on():
            try:
                turn = next(part) if arrived is None else part.send(arrived)
            except StopIteration as end:
                result: Pairs = end.value
                return result
        arrived = yield turn


def call_seconds(compression: Compression, workers: int) -> dict[str, float]:
    """The median of a few calls, and the bytes that the worker sends in one."""
    source = Gradients(ELEMENTS, workers)
    feedbacks = [ErrorFeedback(compression, rank, workers) for rank in range(workers)]
    seconds, sent = [], 0
    for call in range(SKIPPED + TIMED):
        watch = Stopwatch()
        parts = [f.part(source.of(rank, call)) for rank, f in enumerate(feedbacks)]
        talk = converse([timed(part, watch) if rank == 0 else part for rank, part in enumerate(parts)])
        if call >= SKIPPED:
            seconds.append(watch.seconds)
            sent = talk.sent_bytes(0)
    return {"seconds": round(median(seconds), 5), "bytes": sent}


def selection_seconds() -> dict[str, float]:
    """Selecting alone, in one block, against numpy's partition and sort."""
    flat = Gradients(ELEMENTS, 1).of(0, 0)
    k = share(ELEMENTS, DENSITY)
    ways: dict[str, Callable[[], object]] = {
        "sampled threshold": lambda: strongest(flat, 0, ELEMENTS, k),
        "argpartition": lambda: np.argpartition(np.abs(flat), ELEMENTS - k)[-k:],
    }
    found = {}
    for name, select in ways.items():
        select()
        watches = []
        for _ in range(TIMED):
            begun = time.perf_counter()
            select()
            watches.append(time.perf_counter() - begun)
        found[name] = round(median(watches), 5)
    return found


def main() -> None:
    counts = [int(argument) for argument in sys.argv[1:]] or [6, 8]
    selection = selection_seconds()
    print("selecting alone:", ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in selection.items()))
    rows = []
    for workers in counts:
        for name, compression in WAYS.items():
            found = call_seconds(compression, workers)
            rows.append({"workers": workers, "method": name, **found})
            told = f"{1e3 * found['seconds']:6.1f} ms  {found['bytes'] / 1e6:.3f} MB"
            print(f"{workers} workers  {name:18} {told}", flush=True)
    publish("sparse-compute", elements=ELEMENTS, density=DENSITY, selection_seconds=selection, calls=rows)


if __name__ == "__main__":
    main()
