"""Sparse all-reduces of all workers in one process, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from weft.sparse import Compression, Conversation, ErrorFeedback, Pairs, converse
from weft.sparse.pairs import Values

Draw = Callable[[np.random.Generator, int], Values]


def team_counts(workers: int) -> list[int]:
    return [d for d in range(1, workers + 1) if workers % d == 0]


def team_cases(workers: Iterable[int]) -> list[tuple[int, int]]:
    return [(p, d) for p in workers for d in team_counts(p)]


def normal(draw: np.random.Generator, length: int) -> Values:
    return draw.standard_normal(length, dtype=np.float32)


def small_integers(draw: np.random.Generator, length: int) -> Values:
    """Few different magnitudes, many zeros: ties everywhere, and sums that are exact."""
    return draw.integers(-3, 4, length).astype(np.float32) * (draw.random(length) < 0.6)


def team_of(compression: Compression, workers: int, **options: Any) -> list[ErrorFeedback]:
    return [ErrorFeedback(compression, rank, workers, **options) for rank in range(workers)]


def summed(feedbacks: Sequence[ErrorFeedback], gradients: Sequence[Values]) -> Conversation[Pairs]:
    """One call, whose results must be the same to the bit."""
    talk = converse([f.part(g, op="sum") for f, g in zip(feedbacks, gradients, strict=True)])
    first = talk.results[0]
    assert np.all(np.diff(first.index) > 0)
    for other in talk.results[1:]:
        assert first.index.tobytes() == other.index.tobytes()
        assert first.value.tobytes() == other.value.tobytes()
    return talk


def balance(compression: Compression, workers: int, length: int, calls: int, kind: Draw, seed: int = 0) -> np.ndarray:
    """What went in, less what came out and less all residuals, after so many calls: zeros, if nothing is lost."""
    draw = np.random.default_rng(seed)
    feedbacks = team_of(compression, workers)
    account = np.zeros(length)
    for call in range(calls):
        gradients = [kind(draw, length) for _ in range(workers)]
        if call % 7 == 3:
            gradients[call % workers][:] = 0  # a worker that has nothing
        if call % 11 == 5:
            gradients = [np.zeros(length, np.float32)] * workers
        account += np.sum(gradients, axis=0, dtype=np.float64)
        account -= summed(feedbacks, gradients).results[0].dense(length)
    return account - np.sum([f.residual() for f in feedbacks], axis=0, dtype=np.float64)
