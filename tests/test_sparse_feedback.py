"""What is remembered from call to call: by parameter, saved and restored, whatever the buckets; warm-up and momentum."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sparse_cases import normal, summed, team_of
from weft.errors import InputError
from weft.sparse import Compression, ErrorFeedback, converse
from weft.sparse.pairs import Values

LAYOUT = [("a", 30), ("b", 50), ("c", 20)]


def called(feedbacks: list[ErrorFeedback], gradients: list[Values], layout: list[tuple[str, int]]) -> Values:
    talk = converse([f.part(g, layout) for f, g in zip(feedbacks, gradients, strict=True)])
    return talk.results[0].dense(sum(size for _, size in layout))


def test_residuals_move_along_when_buckets_change() -> None:
    draw = np.random.default_rng(0)
    feedbacks = team_of(Compression(density=0.1), 3)
    account = {name: np.zeros(size) for name, size in LAYOUT}
    layouts = [[LAYOUT], [[LAYOUT[2], LAYOUT[0]], [LAYOUT[1]]], [[LAYOUT[1]], [LAYOUT[0]], [LAYOUT[2]]], [LAYOUT]]
    for step in range(12):
        for layout in layouts[step % len(layouts)]:
            gradients = [normal(draw, sum(size for _, size in layout)) for _ in range(3)]
            average, at = called(feedbacks, gradients, layout), 0
            for name, size in layout:
                went_in = np.sum([gradient[at : at + size] for gradient in gradients], axis=0, dtype=np.float64)
                account[name] += went_in - 3 * average[at : at + size]
                at += size
    for name, size in LAYOUT:
        left = np.sum([f.residual(name) for f in feedbacks], axis=0)
        assert left.shape == (size,)
        assert np.abs(account[name] - left).max() < 1e-4, name
    assert all(f.state_dict()["parameters"]["b"]["calls"] == 12 for f in feedbacks)


@pytest.mark.parametrize(
    "compression",
    [
        Compression(density=0.1),
        Compression(density=0.1, teams=3, momentum=0.9, warmup=6, values="bfloat16"),
        Compression("ok-topk", 0.1),
        Compression("topk-a", 0.1, per_layer=True),
    ],
    ids=str,
)
def test_what_is_saved_goes_on_as_if_nothing_had_happened(compression: Compression) -> None:
    draw = np.random.default_rng(0)
    gradients = [[normal(draw, 100) for _ in range(6)] for _ in range(8)]
    straight = team_of(compression, 6)
    expected = [called(straight, step, LAYOUT) for step in gradients]
    first = team_of(compression, 6)
    for step in gradients[:4]:
        called(first, step, LAYOUT)
    second = team_of(compression, 6)
    for old, new in zip(first, second, strict=True):
        new.load_state_dict(old.state_dict())
        assert new.state_dict()["parameters"].keys() == {"a", "b", "c"}
    found = [called(second, step, LAYOUT) for step in gradients[4:]]
    assert all(np.array_equal(a, b) for a, b in zip(expected[4:], found, strict=True))


def test_the_state_of_somebody_else_is_refused() -> None:
    feedback = team_of(Compression(density=0.5), 1)[0]
    called([feedback], [np.ones(100, np.float32)], LAYOUT)
    state = feedback.state_dict()
    with pytest.raises(InputError, match="the state of rank 0 of 1, not of rank 1 of 2: every rank loads its own"):
        ErrorFeedback(Compression(), 1, 2).load_state_dict(state)
    with pytest.raises(InputError, match="not a state of version 1"):
        feedback.load_state_dict({})
    feedback.load_state_dict(state)
    with pytest.raises(InputError, match="parameter 'a' has 31 elements, but 30 are remembered of it"):
        called([feedback], [np.ones(31, np.float32)], [("a", 31)])
    with pytest.raises(InputError, match="nothing is remembered of a parameter 'z'"):
        feedback.residual("z")


def test_a_saved_state_does_not_change_with_later_calls() -> None:
    feedback = team_of(Compression(density=0.1), 1)[0]
    called([feedback], [np.arange(100, dtype=np.float32)], LAYOUT)
    state = feedback.state_dict()
    kept = state["parameters"]["b"]["residual"].copy()
    for _ in range(3):
        called([feedback], [np.arange(100, dtype=np.float32)], LAYOUT)
    assert np.array_equal(state["parameters"]["b"]["residual"], kept)


def test_density_warms_up_from_a_quarter_by_a_constant_factor() -> None:
    compression = Compression(density=0.01, warmup=4)
    densities = [compression.density_at(call) for call in range(6)]
    assert densities[0] == 0.25
    assert densities[4] == densities[5] == 0.01
    ratios = [b / a for a, b in pairwise(densities[:5])]
    assert np.allclose(ratios, ratios[0])
    assert Compression(density=0.5, warmup=4).density_at(0) == 0.5
    draw = np.random.default_rng(0)
    feedbacks = team_of(compression, 2)
    counts = [len(summed(feedbacks, [normal(draw, 1000) for _ in range(2)]).results[0]) for _ in range(6)]
    assert counts[0] == 250
    assert counts[4:] == [10, 10]
    assert counts == sorted(counts, reverse=True)


def test_momentum_goes_on_for_what_is_not_sent_and_starts_again_for_what_is() -> None:
    feedback = team_of(Compression(density=0.25, momentum=0.5), 1)[0]
    gradient = np.array([8.0, 1.0, 0, 0], np.float32)
    first = called([feedback], [gradient], [("w", 4)])
    assert first.tolist() == [8.0, 0, 0, 0]
    # The second element has the velocities 1 and 1.5 by now, the first begins with 8 again.
    second = called([feedback], [gradient], [("w", 4)])
    assert second.tolist() == [8.0, 0, 0, 0]
    assert feedback.residual("w").tolist() == [0, 2.5, 0, 0]
    third = called([feedback], [np.zeros(4, np.float32)], [("w", 4)])
    assert third.tolist() == [0, 3.25, 0, 0], "1 + 1.5 + 0.75"
    assert feedback.state_dict()["parameters"]["w"]["velocity"].tolist() == [0, 0, 0, 0]


def test_every_layer_gets_its_share() -> None:
    gradient = np.concatenate([np.full(30, 1e-3), np.full(50, 5.0), np.full(20, 1e-6)]).astype(np.float32)
    whole = called(team_of(Compression(density=0.1), 2), [gradient] * 2, LAYOUT)
    layered = called(team_of(Compression(density=0.1, per_layer=True), 2), [gradient] * 2, LAYOUT)
    assert not whole[80:].any()
    assert np.count_nonzero(layered[80:]) == 2
    assert np.count_nonzero(layered[:30]) == 3


def test_everything_arrives_in_the_end() -> None:
    draw = np.random.default_rng(0)
    gradients = [normal(draw, 200) for _ in range(4)]
    feedbacks = team_of(Compression(density=0.05, teams=2), 4)
    total = summed(feedbacks, gradients).results[0].dense(200)
    for _ in range(200):
        total += summed(feedbacks, [np.zeros(200, np.float32)] * 4).results[0].dense(200)
    assert np.allclose(total, np.sum(gradients, axis=0), atol=1e-5)
