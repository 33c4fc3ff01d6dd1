from __future__ import annotations

import numpy as np
import pytest

from weft.collectives import butterfly, hierarchical, ring
from weft.errors import InputError
from weft.network import two_tier
from weft.overlap import CommunicationModel, Sample, fitted, model_of_network, shared_link
from weft.overlap.derivation import SIZES, at_once
from weft.planning import Costs
from weft.proof import verify
from weft.simulation import simulate

TRUE = CommunicationModel(1.4e-3, 1.7e-9, (1.0, 1.5, 2.2, 3.0), (1.0, 1.1, 1.4, 2.0))


def samples(model: CommunicationModel, noise: float = 0.0, counts: tuple[int, ...] = (1, 2, 3, 4)) -> list[Sample]:
    random = np.random.default_rng(0)
    return [
        Sample(nbytes, m, model.seconds(nbytes, m) * float(np.exp(noise * random.standard_normal())))
        for m in counts
        for nbytes in SIZES
        for _ in range(3)
    ]


def test_exact_samples_give_the_model_back() -> None:
    found = fitted(samples(TRUE))
    assert found.a == pytest.approx(TRUE.a)
    assert found.b == pytest.approx(TRUE.b)
    assert found.contention == pytest.approx(TRUE.contention)
    assert found.startup == pytest.approx(TRUE.startup)
    assert found.worst_error < 1e-9


def test_noise_shows_in_the_errors_and_hardly_in_the_model() -> None:
    found = fitted(samples(TRUE, noise=0.1))
    assert found.a == pytest.approx(TRUE.a, rel=0.1)
    assert found.contention == pytest.approx(TRUE.contention, rel=0.15)
    assert 0.03 < found.fit_error < 0.12
    assert found.fit_error < found.worst_error


def test_numbers_at_once_that_were_not_measured_lie_between_those_that_were() -> None:
    found = fitted(samples(TRUE, counts=(1, 4)))
    assert found.contention == pytest.approx((1.0, 5 / 3, 7 / 3, 3.0))


def test_a_negative_intercept_becomes_0() -> None:
    found = fitted([Sample(n, 1, s) for n, s in ((10_000, 0.001), (1_000_000, 0.2), (2_000_000, 0.4))])
    assert found.a == 0
    assert found.b == pytest.approx(2e-7, rel=0.6)
    assert found.worst_error > 0.1
    flat = fitted([Sample(n, 1, s) for n, s in ((10_000, 0.3), (1_000_000, 0.2))])
    assert flat.b == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "one all-reduce alone"),
        ([Sample(1000, 2, 1.0), Sample(2000, 2, 1.0)], "one all-reduce alone"),
        ([Sample(1000, 1, 1.0), Sample(1000, 1, 1.1)], "at least two sizes"),
    ],
)
def test_too_few_samples_are_refused(wrong: list[Sample], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(wrong)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="0 or more"):
        CommunicationModel(-1.0, 1.0)
    with pytest.raises(InputError, match="never falls"):
        CommunicationModel(1.0, 1.0, (1.0, 3.0, 2.0))
    with pytest.raises(InputError, match="starts with 1"):
        CommunicationModel(1.0, 1.0, (2.0, 3.0))
    with pytest.raises(InputError, match="one for every number"):
        CommunicationModel(1.0, 1.0, (1.0, 2.0), (1.0,))
    with pytest.raises(InputError, match="knows 1 to 2"):
        CommunicationModel(1.0, 1.0, (1.0, 2.0)).seconds(1.0, 3)
    with pytest.raises(InputError, match="above 0"):
        Sample(0, 1, 1.0)
    with pytest.raises(InputError, match="at least 1"):
        TRUE.limited(0)


def test_throughput_is_best_at_the_best_number_at_once() -> None:
    assert CommunicationModel(0.0, 1.0, (1.0, 1.5, 2.7)).least_per_byte == pytest.approx(0.75)
    assert CommunicationModel(0.0, 1.0, (1.0, 1.5, 2.7), capacity=0.9).least_per_byte == pytest.approx(0.9)
    assert shared_link(0.0, 2.0).least_per_byte == 2.0
    assert TRUE.limited(1).least_per_byte == TRUE.b
    assert TRUE.limited(2).contention == (1.0, 1.5)


@pytest.mark.parametrize("collective", [ring, butterfly, hierarchical])
def test_several_at_once_are_a_schedule_that_is_proved(collective: type) -> None:
    network = two_tier(2, 4, 1e9 / 8, latency=20e-6)
    schedule = collective(network)
    assert at_once(schedule, 1) == schedule
    for count in (2, 3):
        together = at_once(schedule, count)
        verify(together)
        alone = simulate(schedule, network, 1e6).seconds
        assert alone < simulate(together, network, count * 1e6).seconds < 1.001 * count * alone
    with pytest.raises(InputError, match="at least 1"):
        at_once(schedule, 0)


def test_a_ring_alone_leaves_links_idle_and_several_fill_them() -> None:
    rate, latency, workers = 1e9 / 8, 200e-6, 8
    network = two_tier(2, workers // 2, rate, latency=latency)
    model = model_of_network(ring(network), network, together=4)
    steps = 2 * (workers - 1)
    assert model.b == pytest.approx(steps / workers / rate, rel=0.02)
    # A chunk passes 14 hops: 4 of them from rack to rack, over four links, the others over two.
    assert model.a == pytest.approx((4 * 4 + 10 * 2) * latency, rel=0.01)
    assert model.fit_error < 0.05
    assert model.worst_error < 0.25
    small, large = 8_000, 4_000_000
    assert model.seconds(small, 4) < 1.2 * model.seconds(small)
    assert model.seconds(large, 4) > 3 * model.seconds(large)
    # No number at once carries more than the links do.
    assert model.least_per_byte == pytest.approx(steps / workers / rate, rel=0.02)


def test_a_full_network_is_told_from_contention() -> None:
    full = CommunicationModel(1e-3, 1e-9, (1.0, 1.0, 1.1, 1.2), (1.0, 1.0, 1.2, 1.5), 0.8e-9)
    found = fitted(samples(full))
    assert found.capacity == pytest.approx(0.8e-9, rel=0.05)
    assert found.worst_error < 0.1
    assert found.startup == pytest.approx(full.startup, rel=0.1)
    # Twice as much as ever was measured takes twice as long: what a line through small messages would get wrong.
    assert found.seconds(80e6, 4) == pytest.approx(full.seconds(80e6, 4), rel=0.05)


def test_many_at_once_are_promised_no_more_than_was_measured() -> None:
    # One alone fills the link; eight small ones are slow to start, so that a line through them rises too little.
    sizes = (8_192, 65_536, 524_288, 4_194_304)
    found = fitted(
        [
            *(Sample(size, 1, 8e-3 + 32e-9 * size) for size in sizes),
            *(Sample(size, 8, seconds) for size, seconds in zip(sizes, (0.085, 0.095, 0.152), strict=False)),
        ]
    )
    assert found.seconds(2_000_000, 8) >= 16_000_000 * 32e-9
    assert found.worst_error < 0.1


def test_costs_of_executing_count() -> None:
    network = two_tier(2, 2, 1e9 / 8, latency=20e-6)
    plain = model_of_network(ring(network), network, together=2)
    slow = model_of_network(ring(network), network, together=2, costs=Costs(wake_seconds=1e-3))
    assert slow.a > plain.a + 5e-3
