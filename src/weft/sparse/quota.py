"""Quota: how many elements are kept of which stretch of the gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from weft.errors import InputError
from weft.sparse.pairs import Pairs, Values, joined
from weft.sparse.selection import strongest, strongest_pairs
from weft.sparse.watch import Watch
from weft.sparse.wire import Span

MOST_ELEMENTS = 2**31 - 1


def check_density(density: float) -> None:
    given: object = density
    if not (isinstance(given, int | float) and math.isfinite(given) and 0 < given <= 1):
        raise InputError(f"a density of {density} is not possible: it is the part that is sent, above 0 and at most 1")


def share(length: int, density: float) -> int:
    """How many of so many are kept: the nearest number, at least 1."""
    return max(1, round(length * density))


@dataclass(frozen=True, slots=True)
class Quota:
    """The part of the gradient that is kept: of the whole, or of every layer, whose starts are then in ``layers``."""

    length: int
    density: float
    layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_density(self.density)
        if not 0 <= self.length <= MOST_ELEMENTS:
            raise InputError(
                f"a gradient of {self.length} elements is not possible: at most {MOST_ELEMENTS}; divide it"
            )
        if any(not 0 <= a < b for a, b in pairwise((*self.layers, self.length))):
            raise InputError(f"layers that begin at {self.layers} do not divide {self.length} elements")

    def pieces(self, span: Span, nominal: int | None = None) -> list[tuple[int, int, int]]:
        """What to select from in a span: from where on, before which index, and how many.

        Blocks at the end may be shorter than ``nominal``, and keep as many as the others if they can.
        """
        start, stop = span
        if start >= stop:
            return []
        if not self.layers:
            wanted = share(stop - start if nominal is None else nominal, self.density)
            return [(start, stop, min(wanted, stop - start))]
        bounds = sorted({start, stop, *(at for at in self.layers if start < at < stop)})
        return [(a, b, share(b - a, self.density)) for a, b in pairwise(bounds)]

    def kept(self, span: Span, nominal: int | None = None) -> int:
        """How many elements of a span are kept at most."""
        return sum(count for _, _, count in self.pieces(span, nominal))

    def strongest(
        self,
        flat: Values,
        span: Span,
        nominal: int | None = None,
        watch: Watch | None = None,
        changed: Sequence[Pairs] = (),
    ) -> Pairs:
        """Those elements of a span that are kept."""
        return joined([strongest(flat, *piece, watch, changed) for piece in self.pieces(span, nominal)])

    def strongest_pairs(
        self, pairs: Pairs, span: Span, nominal: int | None = None, part: float = 1.0
    ) -> tuple[Pairs, Pairs]:
        """Those pairs of a span that are kept, and the rest; only a part of the usual number, if ``part`` says so."""
        kept, rest = [], []
        for start, stop, count in self.pieces(span, nominal):
            inside = pairs if not self.layers else pairs.within(start, stop)
            wanted = count if part == 1.0 else max(1, round(count * part))
            strong, weak = strongest_pairs(inside, wanted)
            kept.append(strong)
            rest.append(weak)
        return joined(kept), joined(rest)
