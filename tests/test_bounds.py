from __future__ import annotations

from dataclasses import replace

import pytest

import weft
from weft import Network
from weft.network import two_tier

RATE = 50e6
SIZE = 25e6


def slower(network: Network, worker: str, factor: float) -> Network:
    links = (
        replace(x, bandwidth=x.bandwidth * factor) if worker in (x.source, x.destination) else x for x in network.links
    )
    return replace(network, links=tuple(links))


@pytest.mark.parametrize(
    ("network", "expected", "why"),
    [
        (two_tier(2, 4, RATE, uplink=RATE), 0.875, "between 8 workers at least 14 times"),
        (two_tier(4, 2, RATE, uplink=RATE / 4), 3.0, "between 4 regions at least 6 times"),
        (slower(two_tier(2, 4, RATE, uplink=RATE), "a1", 0.25), 2.0, "worker a1 must send the tensor at least once"),
        (two_tier(2, 3, RATE, uplink=RATE), 10 / 6 * 0.5, "between 6 workers"),
        (two_tier(2, 2, RATE, uplink=RATE / 8), 4.0, "rack a must send the tensor at least once"),
    ],
)
def test_the_bound_and_its_reason(network: Network, expected: float, why: str) -> None:
    bound = weft.bound(network, SIZE)
    assert bound.seconds == pytest.approx(expected)
    assert why in bound.why


def test_one_worker_needs_no_time() -> None:
    assert weft.bound(two_tier(2, 2).with_active(["a0"]), SIZE).seconds == 0.0


def test_inactive_workers_that_can_relay_lower_the_bound() -> None:
    network = two_tier(1, 8, RATE)
    few = network.with_active(network.workers[:4])
    assert weft.bound(few, SIZE).seconds < weft.bound(two_tier(1, 4, RATE), SIZE).seconds


def test_latency_bounds_a_tensor_of_one_byte() -> None:
    network = two_tier(2, 2, latency=5e-6)
    assert weft.bound(network, 1).seconds == pytest.approx(20e-6)
