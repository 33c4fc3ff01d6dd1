"""Recording: when things happened in one step of this rank, and the same as a trace.

A step is from the end of one synchronized backward pass to the end of the next: what is done between passes (the update, the next
batch), the forward pass, the backward pass, and the wait for averages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from weft.overlap.step import bucket_spans
from weft.torch.buckets import Bucket
from weft.trace import Span, Trace


@dataclass(slots=True)
class Recording:
    """Times on the clock of time.monotonic. ``gradients`` are by place, 0 for those that did not come."""

    begun: float
    gradients: list[float]
    forward_begun: float = 0.0
    forward_ended: float = 0.0
    computed: float = 0.0
    """when autograd had nothing left to do"""
    ended: float = 0.0
    """when all averages were there"""
    flights: list[tuple[float, float]] = field(default_factory=list)
    """when each bucket left and when its average was there"""

    @property
    def seconds(self) -> float:
        return self.ended - self.begun

    @property
    def between_seconds(self) -> float:
        """Between the pass before and this one: the update, and whatever else."""
        return max(0.0, self.forward_begun - self.begun)

    @property
    def forward_seconds(self) -> float:
        return self.forward_ended - self.forward_begun

    @property
    def reached(self) -> list[float]:
        """How long after its begin a step was ready for the forward pass, done with it, and had each gradient.

        Those that never came count as there at the end of computing.
        """
        return [
            at - self.begun
            for at in (self.forward_begun, self.forward_ended, *(g or self.computed for g in self.gradients))
        ]

    def trace(self, names: Sequence[str], buckets: Sequence[Bucket]) -> Trace:
        """The step from its forward pass on, in the form of a simulated step; what came between passes is at its end."""
        start, worker = self.forward_begun, "worker"
        spans = [Span(worker, "compute", "forward", 0.0, self.forward_seconds, "forward")]
        before = self.forward_ended
        for at, place in sorted((at, -place) for place, at in enumerate(self.gradients) if at):
            if at > before:
                spans.append(
                    Span(worker, "compute", f"backward {names[-place]}", before - start, at - start, "backward")
                )
                before = at
        end = self.ended - start
        spans.append(Span(worker, "compute", "update", end, end + self.between_seconds, "update"))
        spans += bucket_spans(
            [[names[place] for place in bucket.rule.parameters] for bucket in buckets],
            [(left - start, there - start) for left, there in self.flights],
            [bucket.flat.nbytes for bucket in buckets],
        )
        title = f"a step of {len(names)} gradients in {len(buckets)} bucket{'s' * (len(buckets) > 1)}"
        return Trace(title, tuple(sorted(spans, key=lambda span: span.start)))


def side_by_side(traces: Mapping[str, Trace]) -> Trace:
    """Steps in one trace, each under its name, with what is computed above what is on the network."""
    spans = [
        replace(span, worker=f"{name}: {'computing' if span.track == 'compute' else 'network'}")
        for name, trace in traces.items()
        for span in trace.spans
    ]
    title = next(iter(traces.values())).title
    return Trace(title, tuple(sorted(spans, key=lambda span: span.start)))


class Recorder:
    """Records the step that is going on, and keeps the last one that ended."""

    def __init__(self, gradients: int) -> None:
        self._count = gradients
        self.last: Recording | None = None
        self.restart()

    def restart(self) -> None:
        """A step begins now."""
        self.now = Recording(monotonic(), [0.0] * self._count)

    def forward(self, begun: float) -> None:
        """A forward pass that began then has ended."""
        self.now.forward_begun, self.now.forward_ended = begun, monotonic()

    def gradient(self, place: int) -> None:
        self.now.gradients[place] = monotonic()

    def computed(self) -> None:
        self.now.computed = monotonic()

    def end(self, flights: Sequence[tuple[float, float]]) -> Recording:
        """The step has ended; the next begins."""
        self.now.ended = monotonic()
        self.now.flights = list(flights)
        self.last = self.now
        self.restart()
        return self.last
