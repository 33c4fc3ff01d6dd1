"""Gradient and residual, added up where and when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.sparse import Compression, ErrorFeedback, NotFiniteError, converse
from weft.sparse.ledger import Ledger, Residuals
from weft.sparse.pairs import Indexes, Pairs
from weft.sparse.rounds import Part
from weft.sparse.summing import Sums
from weft.sparse.watch import Watch
from weft.sparse.wire import Span, decode

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
    sums.have((0, len(out)))
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
    sums.have((0, len(out)))
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


def eager(part: Part[Pairs], around: Callable[[], AbstractContextManager[object]] = nullcontext) -> Part[Pairs]:
    """The same part on a ground that has time while messages are on their way."""
    turn = next(part)
    while True:
        if turn.meanwhile is not None:
            with around():
                turn.meanwhile()
        arrived = yield turn
        try:
            turn = part.send(arrived)
        except StopIteration as end:
            result: Pairs = end.value
            return result


@pytest.mark.parametrize("residuals", ["global", "partial", "local"])
@pytest.mark.parametrize(("workers", "teams"), [(2, 1), (5, 1), (6, 2), (6, 3), (8, 1), (8, 4), (8, 8)])
def test_what_is_done_while_waiting_changes_no_bit(workers: int, teams: int, residuals: Residuals) -> None:
    settings = Compression(density=0.1, teams=teams, residuals=residuals)
    patient, busy = ([ErrorFeedback(settings, rank, workers) for rank in range(workers)] for _ in range(2))
    draw = np.random.default_rng(workers + teams)
    for _ in range(4):
        gradients = draw.normal(size=(workers, 1001)).astype(np.float32)
        expected = converse([one.part(g.copy()) for one, g in zip(patient, gradients, strict=True)]).results
        found = converse([eager(one.part(g.copy())) for one, g in zip(busy, gradients, strict=True)]).results
        for a, b, one, other in zip(expected, found, patient, busy, strict=True):
            np.testing.assert_array_equal(a.dense(1001), b.dense(1001))
            np.testing.assert_array_equal(one.residual(), other.residual())


def test_blocks_are_added_up_and_settled_while_others_are_on_their_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 of eight, 100 elements a block: what it does while its six messages, one after the other, are on their way."""
    seen: list[list[int]] = []
    have, settle = Sums.have, Ledger.settle

    def have_noted(self: Sums, span: Span) -> None:
        seen[-1].append(span[0] // 100)
        have(self, span)

    def settle_noted(self: Ledger, result: Indexes, span: Span) -> None:
        seen[-1].append(span[0] // 100)
        settle(self, result, span)

    @contextmanager
    def noted() -> Iterator[None]:
        seen.append([])
        with monkeypatch.context() as patch:
            patch.setattr(Sums, "have", have_noted)
            patch.setattr(Ledger, "settle", settle_noted)
            yield

    feedbacks = [ErrorFeedback(Compression(density=0.1), rank, 8) for rank in range(8)]
    gradients = np.random.default_rng(0).normal(size=(8, 800)).astype(np.float32)
    parts = [one.part(gradient) for one, gradient in zip(feedbacks, gradients, strict=True)]
    converse([eager(parts[0], noted), *parts[1:]])
    assert seen == [[2, 3], [1], [0], [0], [1], [2, 3]]
