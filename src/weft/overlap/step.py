"""step: one training step on a timeline: forward, backward, buckets on their way, update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.overlap.arrangement import Arrangement
from weft.overlap.communication import CommunicationModel
from weft.overlap.flight import Floats, fly
from weft.overlap.workload import Workload
from weft.trace import Span, Trace


@dataclass(frozen=True, eq=False)
class Step:
    """What one step takes. Times of buckets count from the start of the step."""

    workload: Workload
    arrangement: Arrangement
    model: CommunicationModel
    seconds: float
    """from the start of the forward pass to the end of the update"""
    bucket_bytes: Floats
    bucket_ready: Floats
    bucket_start: Floats
    bucket_end: Floats

    @property
    def exposed_seconds(self) -> float:
        """Communication that nothing hides: what the step takes longer than its computation."""
        return self.seconds - self.workload.compute_seconds

    @cached_property
    def together(self) -> int:
        """The most buckets that were on their way at once."""
        lasting = self.bucket_end > self.bucket_start
        times = np.concatenate([self.bucket_end[lasting], self.bucket_start[lasting]])
        change = np.repeat([-1, 1], int(lasting.sum()))
        return int(np.cumsum(change[np.lexsort((change, times))]).max(initial=0))

    @cached_property
    def trace(self) -> Trace:
        """The step as spans: one track for computing, and one for every bucket that is on its way at the same time."""
        title = f"{self.workload.name}: {len(self.arrangement.buckets)} buckets"
        spans = [*self._computing(), *self._buckets()]
        return Trace(title, tuple(sorted(spans, key=lambda span: span.start)))

    def _computing(self) -> list[Span]:
        work = self.workload
        spans: list[Span] = []
        now = 0.0
        for tensor in work.tensors:
            now = _add(spans, f"forward {tensor.name}", now, tensor.forward_seconds, "forward")
        now = work.forward_seconds
        begin = work.forward_seconds
        there = _passed(work.ready, self.bucket_start - begin, self.bucket_end - begin, self.model.pace)
        for place, at in zip(work.order, (there + begin).tolist(), strict=True):
            now = _add(spans, f"backward {work.tensors[place].name}", now, at - now, "backward")
        _add(spans, "update", self.seconds - work.update_seconds, work.update_seconds, "update")
        return spans

    def _buckets(self) -> list[Span]:
        names = [[self.workload.tensors[place].name for place in rule.parameters] for rule in self.arrangement.buckets]
        times = zip(self.bucket_start.tolist(), self.bucket_end.tolist(), strict=True)
        return bucket_spans(names, list(times), self.bucket_bytes.tolist())


def bucket_spans(
    names: Sequence[Sequence[str]], times: Sequence[tuple[float, float]], sizes: Sequence[float]
) -> list[Span]:
    """Buckets by the names of their gradients, when each left and ended, and bytes: on as few tracks as hold them."""
    free: list[float] = []
    spans = []
    for number, (own, (start, end), nbytes) in enumerate(zip(names, times, sizes, strict=True)):
        lane = next((lane for lane, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [end]
        label = f"bucket {number}: {own[0]}" + (f" to {own[-1]}" if len(own) > 1 else "")
        spans.append(Span("worker", f"network {lane + 1}", label, start, end, "bucket", nbytes))
    return spans


def _add(spans: list[Span], name: str, start: float, seconds: float, category: str) -> float:
    if seconds > 0:
        spans.append(Span("worker", "compute", name, start, start + seconds, category))
    return start + seconds


def step(workload: Workload, arrangement: Arrangement, model: CommunicationModel) -> Step:
    """Simulate a step. No more buckets are on their way at once than the model knows; the others wait in order."""
    arrangement.check(len(workload.tensors))
    place_in_order = np.empty(len(workload.order), dtype=np.int64)
    place_in_order[list(workload.order)] = np.arange(len(workload.order))
    count = len(arrangement.buckets)
    sizes, ready = np.empty(count), np.empty(count)
    for i, rule in enumerate(arrangement.buckets):
        places = place_in_order[list(rule.parameters)]
        sizes[i], ready[i] = workload.sizes[places].sum(), workload.ready[places].max()
    after = np.array([-1 if rule.after is None else rule.after for rule in arrangement.buckets], dtype=np.int64)
    start, end = np.empty(count), np.empty(count)
    room = np.empty(model.together, dtype=np.int64), np.empty(model.together)
    # Launching is in order: a bucket that is full early still waits until those before it have left.
    last = fly(np.maximum.accumulate(ready), sizes, after, count, *model.arrays(), start, end, *room)
    begin = workload.forward_seconds
    ready = _passed(ready, start, end, model.pace)
    seconds = begin + max(last, workload.backward_seconds) + workload.update_seconds
    return Step(workload, arrangement, model, seconds, sizes, ready + begin, start + begin, end + begin)


def _passed(computed: Floats, start: Floats, end: Floats, pace: float) -> Floats:
    """When so much is computed, if computing runs at a pace while anything is on its way and at its full speed otherwise."""
    if pace == 1:
        return computed
    edges = [0.0]
    speeds = []
    for begun, ended in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        if begun > edges[-1]:
            edges.append(begun)
            speeds.append(1.0)
        if ended > edges[-1]:
            edges.append(ended)
            speeds.append(pace)
    progress = np.concatenate([[0.0], np.cumsum(np.diff(edges) * speeds)])
    beyond = np.maximum(0.0, computed - progress[-1])
    passed: Floats = np.interp(computed, progress, edges) + beyond
    return passed


def least_seconds(workload: Workload, model: CommunicationModel) -> float:
    """No arrangement is faster: computing takes its time, and all bytes pass at the best rate after the first gradient."""
    sending = float(workload.ready[0]) + model.least_per_byte * workload.nbytes
    return workload.forward_seconds + max(workload.backward_seconds, sending) + workload.update_seconds


def most_speedup(workload: Workload, communication_seconds: float, workers: int) -> float:
    """S_max, Equation 42 of ASC-WFBP: over one worker, if all that can be hidden is.

    ``communication_seconds`` is the least that sending all gradients takes, t_c^min: 2 * bytes / bandwidth for a ring.
    """
    forward, backward = workload.forward_seconds, workload.backward_seconds
    hidden = min(backward, communication_seconds)
    return workers * (forward + backward) / (forward + backward + communication_seconds - hidden)
