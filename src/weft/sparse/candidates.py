"""Candidates: what may be among the strongest, found while a gradient is added to its residual.

How strong the weakest selected element of a piece was hardly changes from one call to the next. So sums that are a little weaker
than that, or stronger, are put aside when they are made, and later selected from, together with whatever has changed since: then
the vector need not be read again. If fewer than k of all these are as strong as the limit, the k strongest may be others, and the
vector is read after all. What is selected is exact in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from weft.sparse.accumulation import accumulate, accumulate_above
from weft.sparse.pairs import Indexes, Pairs, Values, added
from weft.sparse.selection import strongest, strongest_pairs
from weft.sparse.wire import Span

SLACK = 0.93
"""How weak candidates may be, as a part of the weakest that was selected in the last call."""
ROOM = 3
"""So many times as many candidates as were selected are put aside at most."""

Limits = list[list[float]]
"""of every piece that was selected from: from where on, before which index, how many, and how strong the weakest was"""


@dataclass(slots=True, eq=False)
class Candidates:
    """By piece: those put aside, and how strong these are at least. ``limits`` are this call's, for the next."""

    known: dict[Span, tuple[Pairs, float]] = field(default_factory=dict)
    limits: Limits = field(default_factory=list)

    def strongest(self, flat: Values, start: int, stop: int, k: int, changed: list[Indexes]) -> Pairs:
        """The k strongest elements of a piece, of which some have changed since they were added up."""
        found = self._among_known(flat, start, stop, k, changed)
        if found is None:
            found = strongest(flat, start, stop, k)
        weakest = float(np.abs(found.value).min()) if 0 < k == len(found) else float("inf")
        self.limits.append([start, stop, k, weakest])
        return found

    def _among_known(self, flat: Values, start: int, stop: int, k: int, changed: list[Indexes]) -> Pairs | None:
        if (start, stop) not in self.known:
            return None
        pairs, limit = self.known[start, stop]
        for index in changed:
            first, last = np.searchsorted(index, (start, stop))
            pairs = added(pairs, Pairs(index[first:last], np.zeros(last - first, np.float32)))
        value = flat[pairs.index] if changed else pairs.value
        if np.count_nonzero(np.abs(value) >= np.float32(limit)) < k:
            return None
        return strongest_pairs(Pairs(pairs.index, value), k)[0]


def accumulated(gradient: Values, residual: Values, out: Values, limits: Limits) -> tuple[int, Candidates]:
    """Write gradient plus residual to ``out``; where the first sum is that is infinite or NaN, or -1; and the candidates."""
    candidates = Candidates()
    pieces = sorted((int(start), int(stop), int(k), weakest) for start, stop, k, weakest in limits)
    at = 0
    for start, stop, _, _ in pieces:
        if start != at:
            break
        at = stop
    if not pieces or at != len(out):
        return accumulate(gradient, residual, out), candidates
    for start, stop, k, weakest in pieces:
        wrong, found = accumulate_above(gradient, residual, out, start, stop, SLACK * weakest, ROOM * k + 64)
        if wrong >= 0:
            return wrong, Candidates()
        if found is not None and weakest < float("inf"):
            candidates.known[start, stop] = found, SLACK * weakest
    return -1, candidates
