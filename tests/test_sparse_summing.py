"""Gradient and residual, added up where and when they are needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.sparse import Compression, ErrorFeedback, NotFiniteError, converse
from weft.sparse.pairs import Pairs
from weft.sparse.rounds import Part
from weft.sparse.summing import Sums
from weft.sparse.watch import Watch
from weft.sparse.wire import decode

spans = st.tuples(st.integers(0, 50), st.integers(0, 50))


@given(st.lists(spans, max_size=8))
def test_whatever_is_asked_for_first_every_element_is_added_once(asked: list[tuple[int, int]]) -> None:
    gradient, residual = np.arange(50, dtype=np.float32), np.full(50, 100, np.float32)
    out = np.full(50, -1, np.float32)
    sums = Sums(Watch(), gradient, residual, out)
    expected, total = np.full(50, -1, np.float32), gradient + residual
    for start, stop in asked:
        sums.have((start, stop))
        expected[start:stop] = total[start:stop]
        assert np.array_equal(out, expected)
        residual[start:stop] = np.nan  # whoever adds twice is found out
    sums.have_all()
    assert not np.isnan(out).any()
    assert sums.wrong == -1


def test_the_first_wrong_number_counts_whenever_it_is_found() -> None:
    gradient = np.zeros(100, np.float32)
    gradient[[20, 70]] = np.inf
    out = np.ones(100, np.float32)
    sums = Sums(Watch(), gradient, np.ones(100, np.float32), out)
    sums.have((50, 100))
    assert sums.wrong == 70
    assert not out[50:].any(), "nothing of such a stretch is sent"
    sums.have_all()
    assert sums.wrong == 20


def test_the_first_message_leaves_before_the_rest_is_added_up_and_all_hear_what_is_wrong_there() -> None:
    def parts() -> list[Part[Pairs]]:
        gradients = np.ones((8, 80), np.float32)
        gradients[0, 5] = np.nan  # in the block of rank 0, which it never sends
        return [ErrorFeedback(Compression(density=0.1), rank, 8).part(gradients[rank]) for rank in range(8)]

    first = next(parts()[0])
    (message,) = first.sends.values()
    assert decode(message.data, [(10 * block, 10 * block + 10) for block in range(4, 8)])[1] is None, "not looked there"
    assert first.meanwhile is not None
    with pytest.raises(NotFiniteError, match="rank 0 is infinite or NaN at element 5"):
        converse(parts())
