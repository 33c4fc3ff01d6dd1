"""Ledger: what a worker must remember during a call to know, in the end, what it has left over.

A worker's residual is its gradient plus its old residual, as it was, wherever the result has nothing: others that saw its
contribution there have dropped it. Where the result has something, the global variant keeps at every worker what this worker
itself did not send on: then the result and all residuals together are what went in. The partial variant (gTopk, Ok-Topk) gives
up what was dropped on the way there; the local variant (deep gradient compression) everything that was ever sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from weft.compiled import compiled_in_place
from weft.errors import InputError
from weft.sparse.pairs import Indexes, Pairs, Values, is_in
from weft.sparse.places import Places
from weft.sparse.wire import Span

Residuals = Literal["global", "partial", "local"]


def check_residuals(variant: str) -> None:
    if variant not in get_args(Residuals):
        raise InputError(f"residuals {variant!r} are unknown: use {', '.join(get_args(Residuals))}")


class Ledger:
    """``flat`` is gradient and residual at first; what arrives may be added to it; ``settle`` makes it the new residual."""

    def __init__(self, flat: Values, variant: Residuals = "global") -> None:
        self.flat, self.variant = flat, variant
        self.added: list[Pairs] = []
        """where something was added, with what is there since then"""
        self._before: list[Pairs] = []
        self._sent: list[Pairs] = []
        self._left: list[tuple[Pairs, float]] = []

    def add(self, pairs: Pairs) -> None:
        """Add what has arrived to the vector."""
        before, now = np.empty(len(pairs), np.float32), np.empty(len(pairs), np.float32)
        _add_all(self.flat, pairs.index, pairs.value, before, now)
        self.added.append(Pairs(pairs.index, now))
        self._before.append(Pairs(pairs.index, before))

    def send(self, pairs: Pairs) -> None:
        """These elements of the vector, as rounded, are handed on, or are a part of the result if they get that far."""
        self._sent.append(pairs)

    def leave(self, pairs: Pairs, share: float) -> None:
        """These were dropped here and, from the same sum, at others: this worker answers for a share of it."""
        if len(pairs):
            self._left.append((pairs, share))

    def settle(self, result: Indexes, span: Span | None = None) -> None:
        """Turn the vector, or a span of it, into the new residual, given where the result has something there."""
        added, sent = _within(self._before, span), _within(self._sent, span)
        if self.variant == "global":
            there = Places(result, span or (0, len(self.flat)))
            for before in reversed(added):
                _restore(self.flat, before.index, before.value, there.without(before.index))
            for pairs in sent:
                _add(self.flat, pairs.index, pairs.value, np.float32(-1), there.within(pairs.index))
            for left, share in self._left:
                for pairs in _within([left], span):
                    _add(self.flat, pairs.index, pairs.value, np.float32(share), there.within(pairs.index))
            return
        for before in reversed(added):
            self.flat[before.index] = before.value
        for pairs in sent:
            self.flat[_common(pairs.index, result) if self.variant == "partial" else pairs.index] = 0

    def delivered(self, result: Indexes) -> list[Indexes]:
        """Where what this worker sent has become a part of the result."""
        return [_common(pairs.index, result) for pairs in self._sent]


def _common(index: Indexes, result: Indexes) -> Indexes:
    return index[is_in(index, result)]


def _within(parts: Sequence[Pairs], span: Span | None) -> list[Pairs]:
    """What these have in a span; those that have nothing there are left out."""
    if span is None:
        return list(parts)
    start, stop = span
    return [one.within(start, stop) for one in parts if len(one) and one.index[0] < stop and one.index[-1] >= start]


@compiled_in_place
def _add_all(flat: Values, index: Indexes, value: Values, before: Values, now: Values) -> None:
    for i in range(len(index)):
        before[i] = flat[index[i]]
        now[i] = before[i] + value[i]
        flat[index[i]] = now[i]


@compiled_in_place
def _restore(flat: Values, index: Indexes, before: Values, chosen: Indexes) -> None:
    """Put back, to the bit, what was there before: the chosen ones."""
    for i in chosen:
        flat[index[i]] = before[i]


@compiled_in_place
def _add(flat: Values, index: Indexes, value: Values, factor: np.float32, chosen: Indexes) -> None:
    """Add so many times the values: the chosen ones."""
    for i in chosen:
        flat[index[i]] += factor * value[i]
