"""Elements that are put aside while gradients are added up: they decide how long selecting takes, never what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparse_cases import normal
from weft.sparse import Compression, ErrorFeedback, converse
from weft.sparse.pairs import Pairs, Values
from weft.sparse.selection import strongest
from weft.sparse.watch import Aim, Watch

LENGTH, K = 50_021, 500


def watched(threshold: float, most: int) -> tuple[Watch, Values]:
    draw = np.random.default_rng(3)
    gradient, residual = normal(draw, LENGTH), normal(draw, LENGTH)
    flat, watch = np.empty(LENGTH, np.float32), Watch({(1_000, 40_003): Aim(threshold, most)})
    assert watch.sum_up(gradient, residual, flat) == -1
    assert np.array_equal(flat, gradient + residual)
    return watch, flat


@pytest.mark.parametrize("threshold", [0.0, 0.5, 3.0, 3.5, 9.0], ids=str)
@pytest.mark.parametrize("changes", [0, 1, 3])
def test_the_strongest_are_the_same_whatever_was_put_aside(threshold: float, changes: int) -> None:
    watch, flat = watched(threshold, 3 * K)
    draw = np.random.default_rng(4)
    changed = []
    for _ in range(changes):
        index = np.flatnonzero(draw.random(LENGTH) < 0.01).astype(np.int32)
        flat[index] = 2 * normal(draw, len(index))
        changed.append(Pairs(index, flat[index]))
    ours = strongest(flat, 1_000, 40_003, K, watch, changed)
    plain = strongest(flat, 1_000, 40_003, K)
    assert np.array_equal(ours.index, plain.index)
    assert np.array_equal(ours.value, plain.value)
    order = np.argsort(-np.abs(flat[1_000:40_003]), kind="stable")[:K]
    assert np.array_equal(ours.index, np.sort(order) + 1_000)


def test_what_is_watched_for_is_put_aside_and_no_pass_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, flat = watched(3.0, 10 * K)

    def fail(*_: Any) -> None:
        raise AssertionError("the vector is read again")

    monkeypatch.setattr("weft.sparse.watch.elements_above", fail)
    found = watch.above(flat, (1_000, 40_003))
    assert found is not None
    assert np.array_equal(found.index, np.flatnonzero(np.abs(flat[1_000:40_003]) >= 3.0) + 1_000)
    assert watch.above(flat, (0, 1_000)) is None, "nobody watched there"


@pytest.mark.parametrize("at", [0, 999, 1_000, 20_000, 40_002, 40_003, LENGTH - 1])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_a_number_that_is_none_is_found_wherever_it_is(at: int, number: float) -> None:
    gradient, flat = np.ones(LENGTH, np.float32), np.empty(LENGTH, np.float32)
    gradient[at] = number
    assert Watch({(1_000, 40_003): Aim(0.5, 10)}).sum_up(gradient, np.zeros(LENGTH, np.float32), flat) == at


@pytest.mark.parametrize("method", ["spardl", "topk-a", "ok-topk"])
def test_a_worker_that_has_forgotten_where_to_look_finds_the_same(method: str) -> None:
    """As after a checkpoint: what is expected is not saved."""
    compression = Compression(method, 0.02)
    calls = [[normal(np.random.default_rng((call, rank)), 60_000) for rank in range(3)] for call in range(4)]
    ours = [ErrorFeedback(compression, rank, 3) for rank in range(3)]
    theirs = [ErrorFeedback(compression, rank, 3) for rank in range(3)]
    for gradients in calls:
        one = converse([f.part(g) for f, g in zip(ours, gradients, strict=True)]).results[0]
        for rank, feedback in enumerate(theirs):
            fresh = ErrorFeedback(compression, rank, 3)
            fresh.load_state_dict(feedback.state_dict())
            theirs[rank] = fresh
        other = converse([f.part(g) for f, g in zip(theirs, gradients, strict=True)]).results[0]
        assert np.array_equal(one.index, other.index)
        assert np.array_equal(one.value, other.value)
    assert all(np.array_equal(a.residual(), b.residual()) for a, b in zip(ours, theirs, strict=True))
