"""Lanes: the spans of a trace by worker, those that overlap in time one above the other."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from weft.report.words import natural_order
from weft.trace import Span, Trace

MOST_SPANS = 20_000
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Lane:
    """The spans of a worker; ``sublane[i]`` is the place of span ``i``, and spans of one place never overlap."""

    worker: str
    spans: tuple[Span, ...]
    sublane: tuple[int, ...]

    @property
    def sublanes(self) -> int:
        return max(self.sublane, default=0) + 1


def lanes_of(trace: Trace, most_tracks: int, most_spans: int = MOST_SPANS) -> list[Lane]:
    """The lanes of the first workers, by name: as many as there may be, and as have no more spans together."""
    by_worker: dict[str, list[Span]] = {}
    for span in trace.spans:
        by_worker.setdefault(span.worker, []).append(span)
    lanes: list[Lane] = []
    room = most_spans
    for worker in sorted(by_worker, key=natural_order)[: max(1, most_tracks)]:
        spans = sorted(by_worker[worker], key=lambda span: (span.start, span.end))
        if lanes and len(spans) > room:
            break
        spans = spans[:room]
        room -= len(spans)
        lanes.append(Lane(worker, tuple(spans), stacked(spans)))
    return lanes


def stacked(spans: Sequence[Span]) -> tuple[int, ...]:
    """The lowest free place for each of these spans, which are in order of their start. Rounding is not overlap."""
    slack = _ROUNDING * max((span.end for span in spans), default=0.0)
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    places: list[int] = []
    for span in spans:
        while busy and busy[0][0] <= span.start + slack:
            heapq.heappush(free, heapq.heappop(busy)[1])
        place = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (span.end, place))
        places.append(place)
    return tuple(places)
