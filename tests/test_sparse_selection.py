"""The strongest elements, sums of pairs, and accumulation, against slow and obvious ways."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from weft.errors import InputError
from weft.sparse import selection
from weft.sparse.accumulation import accumulate, accumulate_with_momentum
from weft.sparse.kth import kth_strongest
from weft.sparse.pairs import NOTHING, Pairs, Values, added, added_up, is_in, joined
from weft.sparse.places import Places
from weft.sparse.quota import Quota
from weft.sparse.selection import strongest, strongest_pairs


def obvious(flat: Values, start: int, stop: int, k: int) -> list[int]:
    """By sorting: magnitude first, then index; no zeros."""
    order = sorted(range(start, stop), key=lambda i: (-abs(float(flat[i])), i))
    return sorted(i for i in order[:k] if flat[i] != 0)


def shown(pairs: Pairs) -> list[tuple[int, float]]:
    return list(zip(pairs.index.tolist(), pairs.value.tolist(), strict=True))


VECTORS = arrays(
    np.float32, st.integers(0, 60), elements=st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-30, 7.0])
)


@given(VECTORS, st.integers(0, 70), st.data())
@settings(max_examples=150, deadline=None)
def test_short_vectors_give_what_sorting_gives(flat: Values, k: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(flat)))
    stop = data.draw(st.integers(start, len(flat)))
    found = strongest(flat, start, stop, k)
    assert found.index.tolist() == obvious(flat, start, stop, k)
    assert found.value.tobytes() == flat[found.index].tobytes()
    kept, rest = strongest_pairs(found, k // 2)
    assert kept.index.tolist() == obvious(found.dense(len(flat)), 0, len(flat), k // 2)
    assert sorted(shown(kept) + shown(rest)) == shown(found)


@given(
    arrays(
        np.float32,
        st.integers(1, 300),
        elements=st.one_of(
            st.floats(-(2.0**126), 2.0**126, width=32),
            st.sampled_from([0.0, -0.0, 1.0, -1.0, 1 + 2.0**-23, 2.0**-149, 2.0**127]),
        ),
    ),
    st.data(),
)
def test_the_kth_strongest_is_what_sorting_gives(values: Values, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(values)))
    assert kth_strongest(values, k) == np.sort(np.abs(values))[-k]


@pytest.mark.parametrize("spread", [0.0, 1e-7, 1.0, 1e3], ids=str)
def test_the_kth_strongest_of_many(spread: float) -> None:
    draw = np.random.default_rng(5)
    values = (1 + spread * np.abs(draw.standard_cauchy(50_000))).astype(np.float32) * draw.choice([-1, 1], 50_000)
    values = values.astype(np.float32)
    ordered = np.sort(np.abs(values))
    for k in (1, 2, 33, 500, 25_000, 49_999, 50_000):
        assert kth_strongest(values, k) == ordered[-k]


LONG = 200_003


@pytest.mark.parametrize("kind", ["normal", "steep", "few values", "one value", "zeros", "mostly zeros", "one peak"])
@pytest.mark.parametrize("k", [1, 20, 2_000, 60_000, LONG - 1, LONG, LONG + 5])
def test_long_vectors_give_exactly_the_strongest_whatever_the_sample_says(kind: str, k: int) -> None:
    draw = np.random.default_rng(k)
    kinds: dict[str, Callable[[], np.ndarray]] = {
        "normal": lambda: draw.standard_normal(LONG),
        "steep": lambda: np.exp(4 * draw.standard_normal(LONG)) * draw.choice([-1, 1], LONG),
        "few values": lambda: draw.integers(-2, 3, LONG),
        "one value": lambda: np.full(LONG, -3.0),
        "zeros": lambda: np.zeros(LONG),
        "mostly zeros": lambda: draw.standard_normal(LONG) * (draw.random(LONG) < 0.003),
        "one peak": lambda: np.where((np.arange(LONG) // 1000) == 50, 9.0, draw.standard_normal(LONG) * 1e-3),
    }
    flat = kinds[kind]().astype(np.float32)
    order = np.lexsort((np.arange(LONG), -np.abs(flat)))[:k]
    expected = np.sort(order[flat[order] != 0])
    assert np.array_equal(strongest(flat, 0, LONG, k).index, expected)


def test_the_sampled_threshold_is_really_used_and_reads_the_vector_once(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = np.random.default_rng(0).standard_normal(LONG, dtype=np.float32)
    passes: list[int] = []
    collect = selection._collect

    def counted(*arguments: Any) -> int:
        passes.append(1)
        return collect(*arguments)

    monkeypatch.setattr(selection, "_collect", counted)
    found = strongest(flat, 0, LONG, 2_000)
    assert len(found) == 2_000
    assert len(passes) == 1


@given(st.lists(st.dictionaries(st.integers(0, 40), st.sampled_from([1.0, -1.0, 0.5, 3.0]), max_size=30), max_size=7))
@settings(max_examples=100, deadline=None)
def test_sums_of_pairs_are_those_of_vectors(parts: list[dict[int, float]]) -> None:
    pairs = [Pairs(np.array(sorted(p), np.int32), np.array([p[i] for i in sorted(p)], np.float32)) for p in parts]
    total = added_up(pairs)
    assert np.array_equal(total.dense(41), np.sum([p.dense(41) for p in [NOTHING, *pairs]], axis=0))
    assert total.index.tolist() == sorted(set().union(*parts))
    for one, other in pairwise(pairs):
        assert shown(added(one, other)) == shown(added(other, one))
        assert is_in(one.index, other.index).tolist() == [i in set(other.index.tolist()) for i in one.index.tolist()]


def test_joining_nothing_is_nothing() -> None:
    assert len(joined([])) == len(joined([NOTHING, NOTHING])) == 0


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1023, 1024, 4999])
def test_accumulating_adds_and_finds_the_first_number_that_is_none(wrong: float, place: int) -> None:
    draw = np.random.default_rng(1)
    gradient, residual, velocity = (draw.standard_normal(5_000, dtype=np.float32) for _ in range(3))
    out = np.empty_like(gradient)
    assert accumulate(gradient, residual, out) == -1
    assert np.array_equal(out, gradient + residual)
    speed = gradient.copy()
    assert accumulate_with_momentum(speed, velocity, 0.5, residual, out) == -1
    assert np.allclose(speed, 0.5 * velocity + gradient, atol=1e-6)
    assert np.allclose(out, residual + speed, atol=1e-6)
    gradient[place] = wrong
    assert accumulate(gradient, residual, out) == place
    assert accumulate_with_momentum(gradient.copy(), velocity, 0.5, residual, out) == place


def test_layers_keep_their_own_share_and_the_whole_does_not() -> None:
    flat = np.concatenate([np.full(100, 1e-3), np.full(300, 1.0)]).astype(np.float32)
    whole, layered = Quota(400, 0.1), Quota(400, 0.1, (0, 100))
    assert whole.strongest(flat, (0, 400)).index.tolist() == list(range(100, 140))
    assert layered.strongest(flat, (0, 400)).index.tolist() == [*range(10), *range(100, 130)]
    assert layered.pieces((50, 150)) == [(50, 100, 5), (100, 150, 5)]
    assert layered.kept((20, 20)) == 0
    kept, rest = layered.strongest_pairs(layered.strongest(flat, (0, 400)), (0, 400), part=0.5)
    assert kept.index.tolist() == [*range(5), *range(100, 115)]
    assert len(rest) == 20


@pytest.mark.parametrize("density", [0, -0.1, 1.0001, 2, float("nan"), float("inf"), "much"])
def test_a_density_that_is_no_part_is_refused(density: float) -> None:
    with pytest.raises(InputError, match=r"a density of .* is not possible: it is the part that is sent"):
        Quota(10, density)


def test_a_gradient_whose_indexes_need_more_than_four_bytes_is_refused() -> None:
    with pytest.raises(InputError, match="at most 2147483647; divide it"):
        Quota(2**31, 0.1)
    with pytest.raises(InputError, match="do not divide 10 elements"):
        Quota(10, 0.1, (0, 10))


@given(st.integers(0, 500), st.sets(st.integers(0, 299)), st.sets(st.integers(0, 299)))
def test_places_are_those_of_the_list(start: int, among: set[int], asked: set[int]) -> None:
    there, index = (np.array(sorted(start + i for i in some), np.int32) for some in (among, asked))
    places = Places(there, (start, start + 300))
    assert set(index[places.within(index)].tolist()) == {start + i for i in asked & among}
    assert set(index[places.without(index)].tolist()) == {start + i for i in asked - among}
