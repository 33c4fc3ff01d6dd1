"""Selecting from candidates: the same as from the whole vector, whatever has changed, and without reading it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparse_cases import normal, small_integers, summed, team_of
from weft.sparse import Compression, candidates
from weft.sparse.candidates import Limits, accumulated
from weft.sparse.ledger import Ledger
from weft.sparse.pairs import Pairs
from weft.sparse.selection import strongest


@given(
    st.integers(0, 10_000),
    st.sampled_from([0.0, 0.5, 1.0, 1.6, 2.5, float("inf")]),
    st.integers(1, 30),
    st.integers(0, 3),
)
@settings(max_examples=150, deadline=None)
def test_what_is_selected_does_not_depend_on_the_limits(seed: int, weakest: float, k: int, arrivals: int) -> None:
    draw = np.random.default_rng(seed)
    kind = normal if seed % 2 else small_integers
    gradient, residual = kind(draw, 200), kind(draw, 200)
    out = np.empty(200, np.float32)
    limits: Limits = [[120, 200, k, weakest], [0, 120, k, weakest or 1e-9]]
    wrong, found = accumulated(gradient, residual, out, limits)
    assert wrong == -1
    assert np.array_equal(out, gradient + residual)
    ledger = Ledger(out)
    for _ in range(arrivals):
        index = np.sort(draw.choice(200, 25, replace=False)).astype(np.int32)
        ledger.add(Pairs(index, kind(draw, 25)))
    for start, stop in ((0, 120), (120, 200)):
        expected = strongest(out, start, stop, k)
        chosen = found.strongest(out, start, stop, k, ledger.changed((start, stop)))
        assert np.array_equal(chosen.index, expected.index)
        assert np.array_equal(chosen.value, expected.value)
    assert [limit[:3] for limit in found.limits] == [[0, 120, k], [120, 200, k]]


@pytest.mark.parametrize("limits", [[], [[0, 50, 5, 1.0]], [[0, 50, 5, 1.0], [60, 100, 5, 1.0]], [[0, 200, 5, 1.0]]])
def test_limits_that_do_not_cover_the_vector_are_not_used(limits: Limits) -> None:
    ones, out = np.ones(100, np.float32), np.empty(100, np.float32)
    wrong, found = accumulated(ones, ones, out, limits)
    assert (wrong, found.known) == (-1, {})
    assert np.array_equal(out, 2 * ones)


def test_numbers_that_are_none_are_found_in_every_piece() -> None:
    for place in (0, 49, 50, 99):
        gradient, out = np.ones(100, np.float32), np.empty(100, np.float32)
        gradient[place] = np.nan
        wrong, found = accumulated(gradient, gradient, out, [[0, 50, 5, 1.0], [50, 100, 5, 1.0]])
        assert (wrong, found.known) == (place, {})


def test_more_candidates_than_there_is_room_for_are_given_up() -> None:
    ones, out = np.ones(1000, np.float32), np.empty(1000, np.float32)
    _, found = accumulated(ones, ones, out, [[0, 1000, 5, 1.0]])
    assert found.known == {}
    assert found.strongest(out, 0, 1000, 5, []).index.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "settings", [{"teams": 1}, {"teams": 2}, {"teams": 4}, {"method": "topk-a"}, {"per_layer": True}]
)
def test_after_some_calls_vectors_are_hardly_ever_read_again(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(*arguments: Any) -> Pairs:
        read.append(1)
        return strongest(*arguments)

    monkeypatch.setattr(candidates, "strongest", counted)
    draw = np.random.default_rng(0)
    feedbacks = team_of(Compression(density=0.02, **settings), 4)
    selected = 0
    for call in range(20):
        summed(feedbacks, [normal(draw, 40_000) for _ in range(4)])
        if call == 10:
            read.clear()
            selected = 0
        selected += sum(len(f.state_dict()["methods"][":40000"]["limits"]) for f in feedbacks)
    assert len(read) < 0.1 * selected
