"""Nothing is lost: what went in is what came out and what is left over, for every method, number of workers and team."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparse_cases import balance, normal, small_integers, summed, team_cases, team_counts, team_of
from weft.errors import ExecutionError, InputError
from weft.sparse import METHODS, Compression, ErrorFeedback, Message, NotFiniteError, Round, converse
from weft.sparse.number_formats import FORMATS
from weft.sparse.rounds import Part

LENGTHS = {0.01: 300, 0.1: 97, 0.5: 40, 1.0: 23}
RIVALS = [name for name in METHODS if name not in ("spardl", "gtopk")]


@pytest.mark.parametrize("density", LENGTHS)
@pytest.mark.parametrize(("workers", "teams"), team_cases(range(2, 10)))
def test_whole_numbers_are_conserved_to_the_bit_for_a_hundred_calls(workers: int, teams: int, density: float) -> None:
    compression = Compression(density=density, teams=teams)
    assert not np.any(balance(compression, workers, LENGTHS[density], 100, small_integers))


@pytest.mark.parametrize(
    ("workers", "teams"), [*team_cases([2, 3, 5, 6, 8, 9]), (12, 3), (12, 4), (16, 8), (17, 1), (17, 17)]
)
def test_any_numbers_are_conserved_to_float_precision_for_a_hundred_calls(workers: int, teams: int) -> None:
    lost = balance(Compression(density=0.05, teams=teams), workers, 120, 100, normal)
    assert np.abs(lost).max() < 2e-7 * workers * 100


@pytest.mark.parametrize(
    ("workers", "teams"), [(p, d) for p, d in team_cases([2, 4, 6, 8]) if not d & (d - 1) and d > 1]
)
def test_b_sag_loses_nothing_where_r_sag_would_do(workers: int, teams: int) -> None:
    compression = Compression(density=0.1, teams=teams, exchange="bruck")
    assert not np.any(balance(compression, workers, 97, 50, small_integers))


@pytest.mark.parametrize("values", FORMATS[1:])
@pytest.mark.parametrize(("workers", "teams"), team_cases([3, 4, 6, 8]))
def test_what_rounding_takes_away_is_left_over(workers: int, teams: int, values: Any) -> None:
    lost = balance(Compression(density=0.05, teams=teams, values=values), workers, 120, 40, normal)
    assert np.abs(lost).max() < 2e-7 * workers * 40


@pytest.mark.parametrize("method", RIVALS)
@pytest.mark.parametrize("workers", [2, 3, 4, 5, 6, 7, 8, 9, 17])
def test_rivals_lose_nothing_either(method: str, workers: int) -> None:
    for gather in ("doubling", "bruck"):
        compression = Compression(method, 0.1, gather=gather)
        assert not np.any(balance(compression, workers, 97, 70 if workers < 5 else 35, small_integers))


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_gtopk_loses_nothing_with_global_residuals_and_something_with_its_own(workers: int) -> None:
    assert not np.any(balance(Compression("gtopk", 0.1), workers, 97, 50, small_integers))
    if workers > 2:  # with two, whatever is dropped is not in the result
        assert np.any(balance(Compression("gtopk", 0.1, residuals="partial"), workers, 97, 50, small_integers))


@pytest.mark.parametrize(("workers", "teams"), team_cases([4, 6]))
def test_partial_residuals_lose_less_than_local_ones(workers: int, teams: int) -> None:
    lost = {
        variant: np.abs(
            balance(Compression(density=0.05, teams=teams, residuals=variant), workers, 200, 60, normal)
        ).sum()
        for variant in ("global", "partial", "local")
    }
    assert lost["global"] < 1e-2
    assert lost["partial"] < lost["local"]
    assert lost["partial"] > 1 or teams == workers == 2


@given(st.integers(1, 9), st.integers(0, 40), st.sampled_from([0.01, 0.3, 1.0]), st.integers(0, 1000), st.data())
@settings(max_examples=120, deadline=None)
def test_any_length_works_shorter_than_the_workers_too(
    workers: int, length: int, density: float, seed: int, data: st.DataObject
) -> None:
    teams = data.draw(st.sampled_from(team_counts(workers)))
    bounds = sorted(data.draw(st.sets(st.integers(1, max(1, length - 1)), max_size=3))) if length > 1 else []
    layout = [(f"p{i}", b - a) for i, (a, b) in enumerate(zip([0, *bounds], [*bounds, length], strict=True))]
    draw = np.random.default_rng(seed)
    per_layer = data.draw(st.booleans())
    feedbacks = team_of(Compression(density=density, teams=teams, per_layer=per_layer), workers)
    account = np.zeros(length)
    for _ in range(3):
        gradients = [small_integers(draw, length) for _ in range(workers)]
        talk = converse([f.part(g, layout, "sum") for f, g in zip(feedbacks, gradients, strict=True)])
        account += np.sum(gradients, axis=0) - talk.results[0].dense(length)
    left = [np.concatenate([f.residual(name) for name, _ in layout]) for f in feedbacks]
    assert np.array_equal(account, np.sum(left, axis=0))


def test_one_worker_keeps_its_strongest_elements_and_sends_nothing() -> None:
    talk = summed(team_of(Compression(density=0.2), 1), [np.array([1, -5, 2, 3, 4], np.float32)])
    assert talk.results[0].index.tolist() == [1]
    assert talk.nbytes == 0


def test_the_average_is_the_sum_divided_by_the_workers() -> None:
    gradients = [np.array([3.0, 0, 9, 0], np.float32), np.array([6.0, 0, 0, 0], np.float32), np.zeros(4, np.float32)]
    feedbacks = team_of(Compression(density=1), 3)
    talk = converse([f.part(g) for f, g in zip(feedbacks, gradients, strict=True)])
    assert talk.results[2].dense(4).tolist() == [3.0, 0, 3.0, 0]


def test_zeros_are_never_sent() -> None:
    zero = np.zeros(100, np.float32)
    talk = summed(team_of(Compression(density=0.5), 4), [zero] * 4)
    assert len(talk.results[0]) == 0
    assert all(delivery.elements == 0 for delivery in talk.deliveries)


def test_ties_are_decided_for_the_lowest_index_on_all_workers() -> None:
    talk = summed(team_of(Compression(density=0.25), 2), [np.ones(8, np.float32), np.full(8, 3, np.float32)])
    assert talk.results[0].index.tolist() == [0, 4]
    assert talk.results[0].value.tolist() == [4.0, 4.0]


@pytest.mark.parametrize("method", [*RIVALS, "gtopk", "spardl", "spardl in teams", "spardl by bruck"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_numbers_that_are_none_are_named_by_all_workers_and_harm_nobody(method: str, wrong: float) -> None:
    name, teams = method.split()[0], 2 if " in " in method else 4 if " by " in method else 1
    exchange = "bruck" if "bruck" in method else "auto"
    feedbacks = team_of(Compression(name, 0.2, teams=teams, exchange=exchange), 4)  # type: ignore[arg-type]
    draw = np.random.default_rng(0)
    layout = [("bias", 7), ("weight", 33)]
    good = [normal(draw, 40) for _ in range(4)]
    converse([f.part(g, layout) for f, g in zip(feedbacks, good, strict=True)])
    before = [f.state_dict() for f in feedbacks]
    bad = [g.copy() for g in good]
    bad[3][20], bad[2][31] = wrong, wrong
    if name == "dense":
        talk = converse([f.part(g, layout) for f, g in zip(feedbacks, bad, strict=True)])
        assert not np.isfinite(talk.results[0].value[[20, 31]]).any(), "passes through, as dense averaging does"
        return
    errors = _errors([f.part(g, layout) for f, g in zip(feedbacks, bad, strict=True)])
    for error in errors:
        assert (error.rank, error.index) == (2, 31)
        assert "the gradient of rank 2 is infinite or NaN at element 31 (weight, element 24)" in str(error)
    for feedback, state in zip(feedbacks, before, strict=True):
        for parameter in ("bias", "weight"):
            assert np.array_equal(feedback.residual(parameter), state["parameters"][parameter]["residual"])
    summed(team_of(Compression(name, 0.2), 4), good)


def test_a_sum_that_overflows_is_named_too() -> None:
    huge = np.full(10, 3e38, np.float32)
    errors = _errors([f.part(huge, op="sum") for f in team_of(Compression(density=0.5), 2)])
    assert all("the sum of all ranks' gradients is infinite or NaN at element 0" in str(error) for error in errors)


def _errors(parts: list[Part[Any]]) -> list[NotFiniteError]:
    """What every worker raises, after all have heard what the others know."""
    raised: list[NotFiniteError | None] = [None] * len(parts)

    def attempted(rank: int, part: Part[Any]) -> Part[None]:
        try:
            yield from part
        except NotFiniteError as error:
            raised[rank] = error

    converse([attempted(rank, part) for rank, part in enumerate(parts)])
    found = [error for error in raised if error is not None]
    assert len(found) == len(parts), "not all have noticed"
    return found


@pytest.mark.parametrize(
    ("settings", "workers", "message"),
    [
        ({"density": 0}, 4, "a density of 0 is not possible"),
        ({"density": 1.5}, 4, "a density of 1.5 is not possible"),
        ({"teams": 3}, 4, "4 workers cannot be 3 teams of one size: use 1, 2, 4"),
        ({"teams": 0}, 4, "4 workers cannot be 0 teams"),
        ({"teams": 3, "exchange": "recursive"}, 6, "3 teams cannot exchange recursively, only powers of two can"),
        ({"exchange": "by post"}, 6, "an exchange 'by post' between teams is unknown"),
        ({"method": "topk"}, 4, "the sparse method 'topk' is unknown: use spardl, topk-a"),
        ({"residuals": "none"}, 4, "residuals 'none' are unknown: use global, partial, local"),
        ({"values": "int8"}, 4, "values as 'int8' are not possible"),
        ({"gather": "ring"}, 4, "an all-gather by 'ring' is unknown: use bruck or doubling"),
        ({"method": "ok_topk", "per_layer": True}, 4, "ok-topk has one threshold for the whole gradient"),
        ({"warmup": -1}, 4, "a warm-up of -1 calls is not possible"),
        ({"momentum": 1.0}, 4, "a momentum of 1.0 is not possible"),
        ({}, 0, "0 workers are not possible"),
    ],
)
def test_settings_that_are_not_possible_are_refused(settings: dict[str, Any], workers: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ErrorFeedback(Compression(**settings), 0, workers)


def test_gradients_that_do_not_fit_are_refused() -> None:
    feedback = ErrorFeedback(Compression(), 0, 2)
    with pytest.raises(InputError, match="flat, contiguous array of float32"):
        feedback.part(np.zeros(4))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a gradient of 4 elements does not fit its layout of 5"):
        feedback.part(np.zeros(4, np.float32), [("a", 5)])
    with pytest.raises(InputError, match="has a parameter twice"):
        next(feedback.part(np.zeros(4, np.float32), [("a", 2), ("a", 2)]))
    with pytest.raises(InputError, match="op 'max' is not known"):
        feedback.part(np.zeros(4, np.float32), op="max")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="rank 2 is not one of 2 workers"):
        ErrorFeedback(Compression(), 2, 2)


def test_workers_that_wait_for_each_other_in_vain_are_named() -> None:
    def waiting(peer: int) -> Part[None]:
        yield Round({}, {peer: 10})

    with pytest.raises(ExecutionError, match="worker 0 waits for worker 1 in round 1; worker 1 waits for worker 0"):
        converse([waiting(1), waiting(0)])


def test_a_message_larger_than_announced_is_noticed() -> None:
    def sending() -> Part[None]:
        yield Round({1: Message(np.zeros(11, np.uint8), 0)}, {})

    def receiving() -> Part[None]:
        yield Round({}, {0: 10})

    with pytest.raises(AssertionError, match="11 bytes came from worker 0 where 10 were expected at most"):
        converse([sending(), receiving()])
