"""Watch: elements above a threshold are put aside while gradient and residual are added up: selecting need not read all again.

The threshold of a stretch is a little less than the magnitude of the weakest element that was kept of it in the last call, or
than what that has grown to meanwhile, as it does in the first hundred calls, in which residuals fill up. All that is above it
now was put aside or has changed since, so the strongest are found among those, exactly, if they are enough. Otherwise a
sample says where to look: what is watched decides how long selecting takes, never what comes out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from weft.compiled import compiled_in_place
from weft.sparse.accumulation import accumulate, accumulate_and_collect, room_for
from weft.sparse.marking import EIGHT
from weft.sparse.pairs import Indexes, Pairs, Values
from weft.sparse.selection import elements_above
from weft.sparse.wire import Span

NEARLY = 0.94
"""So many times the weakest element that is foreseen is the threshold."""
MOST_GROWTH = 1.25
MOST_FOUND = 3
"""So many times as many as are wanted may lie above it."""


class Aim(NamedTuple):
    """A threshold, how many elements may lie above it, and the magnitude of the weakest that was kept."""

    threshold: float
    most: int
    weakest: float = 0.0


Expected = dict[Span, Aim]
"""by stretch"""


class Watch:
    """Of one call. ``following`` is what the next one should expect."""

    def __init__(self, expected: Mapping[Span, Aim] | None = None, rooms: Mapping[Span, Pairs] | None = None) -> None:
        self._expected = dict(expected or {})
        self._rooms = dict(rooms or {})
        self._summed = False
        self._aside: dict[Span, Pairs] = {}
        self.following: Expected = {}
        self.rooms: dict[Span, Pairs] = {}
        """memory for what is put aside, to be used in the next call again: new memory is slow"""

    def sum_up(self, gradient: Values, residual: Values, out: Values, within: Span | None = None) -> int:
        """Write the sum to ``out``, there or everywhere; the place of the first that is infinite or NaN, or -1."""
        (at, end), self._summed = within or (0, len(out)), True
        for start, stop in sorted(self._expected):
            threshold, most, _ = self._expected[start, stop]
            if start < at or stop > end or not threshold > 0:
                continue
            wrong = accumulate(gradient[at:start], residual[at:start], out[at:start])
            if wrong >= 0:
                return at + wrong
            part = slice(start, stop)
            room = self._room((start, stop), most)
            wrong, found = accumulate_and_collect(gradient[part], residual[part], out[part], start, threshold, room)
            if wrong >= 0:
                return start + wrong
            if found is not None:
                self._aside[start, stop] = found
            at = stop
        wrong = accumulate(gradient[at:end], residual[at:end], out[at:end])
        return -1 if wrong < 0 else at + wrong

    def _room(self, span: Span, most: int) -> Pairs:
        room = self._rooms.get(span)
        if room is None or len(room) != most + EIGHT:
            room = room_for(most)
        self.rooms[span] = room
        return room

    def forget(self) -> None:
        """The vector is another one now."""
        self._aside, self._expected = {}, {}

    def above(self, flat: Values, span: Span, changed: Sequence[Pairs] = ()) -> Pairs | None:
        """All elements above the stretch's threshold; None if it has none, or too many are.

        ``changed`` are those places to which something was added since, with what is there now, the latest last.
        """
        if span not in self._expected:
            return None
        threshold, most, _ = self._expected[span]
        aside = self._aside.get(span)
        if aside is None:  # too many, or nothing was added up here
            return None if self._summed else elements_above(flat, *span, threshold, most)
        for pairs in (one.within(*span) for one in changed):
            if len(pairs):
                aside = _with_changed(aside, pairs, threshold)
        return aside

    def expects(self, span: Span, threshold: float, most: int) -> bool:
        """Whether exactly this was to be watched for."""
        return self._summed and self._expected.get(span) == Aim(threshold, most)

    def expect(self, span: Span, threshold: float, most: int) -> None:
        """Watch for this in the next call."""
        self.following[span] = Aim(threshold, most)

    def kept(self, span: Span, pairs: Pairs) -> None:
        """These were the strongest: in the next call there will be about as many, about as strong."""
        weakest = float(np.abs(pairs.value).min())
        before = self._expected.get(span)
        growth = 1.0 if before is None or not before.weakest else weakest / before.weakest
        foreseen = weakest * min(MOST_GROWTH, math.sqrt(max(1.0, growth)))
        self.following[span] = Aim(NEARLY * foreseen, MOST_FOUND * len(pairs), weakest)


def _with_changed(aside: Pairs, changed: Pairs, threshold: float) -> Pairs:
    """Both together, as strong as they are now, but for those that have changed and are below the threshold."""
    index, value = np.empty(len(aside) + len(changed), np.int32), np.empty(len(aside) + len(changed), np.float32)
    count = _merge_changed(aside.index, aside.value, changed.index, changed.value, np.float32(threshold), index, value)
    return Pairs(index[:count], value[:count])


@compiled_in_place
def _merge_changed(
    ai: Indexes, av: Values, changed: Indexes, new: Values, threshold: np.float32, index: Indexes, value: Values
) -> int:
    i = out = 0
    for j in range(len(changed)):
        at = changed[j]
        while i < len(ai) and ai[i] < at:
            index[out], value[out] = ai[i], av[i]
            out += 1
            i += 1
        if i < len(ai) and ai[i] == at:
            i += 1
        now = new[j]
        index[out], value[out] = at, now
        out += abs(now) >= threshold
    while i < len(ai):
        index[out], value[out] = ai[i], av[i]
        out += 1
        i += 1
    return out
