from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from strategies import networks, random_networks
from weft import Link, Network
from weft.network import both_ways, dgx1, two_tier
from weft.network.cuts import cut_capacity
from weft.network.divisions import group_flows, narrowest_division, narrowest_group, with_relays
from weft.packing.pack import pack

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


def divisions(ranks: list[int]) -> Iterator[list[list[int]]]:
    """Every way to put some workers into groups."""
    if not ranks:
        yield []
        return
    for groups in divisions(ranks[1:]):
        yield [[ranks[0]], *groups]
        for i, group in enumerate(groups):
            yield [*groups[:i], [ranks[0], *group], *groups[i + 1 :]]


def width(network: Network, groups: list[list[int]], inward: bool) -> float:
    total = 0.0
    for group in groups:
        others = [rank for other in groups if other is not group for rank in other]
        ends = (others, group) if inward else (group, others)
        total += cut_capacity(network.graph, *ends)
    return total / (len(groups) - 1)


def lopsided(network: Network, seed: int) -> Network:
    """Every direction with a rate of its own."""
    draw = np.random.default_rng(seed)
    return replace(
        network, links=tuple(replace(x, bandwidth=x.bandwidth * draw.uniform(0.5, 1)) for x in network.links)
    )


@settings(deadline=None, max_examples=40)
@given(random_networks(most_workers=6, inactive=False), st.booleans(), st.integers(0, 9))
def test_the_narrowest_division_is_the_narrowest_of_all(network: Network, inward: bool, seed: int) -> None:
    network = lopsided(network, seed) if seed else network
    if len(network.workers) > 1:
        least = min(width(network, d, inward) for d in divisions(list(network.active)) if len(d) > 1)
        found = narrowest_division(network.graph, network.active, 2 * least, inward=inward)
        assert width(network, found, inward) == pytest.approx(least)
        assert sorted(rank for group in found for rank in group) == list(network.active)
        assert len(narrowest_division(network.graph, network.active, 0.99 * least, inward=inward)) == 1


@settings(deadline=None, max_examples=40)
@given(random_networks(most_workers=6), st.integers(0, 9))
def test_the_narrowest_group_is_the_narrowest_of_all(network: Network, seed: int) -> None:
    network = lopsided(network, seed) if seed else network
    active = list(network.active)
    if len(active) > 1:
        least = min(
            cut_capacity(network.graph, *ends) for d in divisions(active) if len(d) == 2 for ends in (d, d[::-1])
        )
        group = narrowest_group(network.graph, active)
        rest = [rank for rank in active if rank not in group]
        assert min(cut_capacity(network.graph, *ends) for ends in ((group, rest), (rest, group))) == pytest.approx(
            least
        )


@settings(deadline=None, max_examples=40)
@given(networks, st.integers(0, 9))
def test_no_packing_is_faster_than_counting_allows_whatever_its_relays(network: Network, seed: int) -> None:
    network = lopsided(network, seed) if seed else network
    assert weft.bound(network, 1.0, latency=False).seconds <= pack(network, seconds=0.5).value * (1 + 1e-6)


def test_groups_that_nobody_named_may_give_the_bound() -> None:
    # Three pairs of workers, each pair joined by a fast cable, all six on a ring of slow ones.
    names = tuple(f"w{i}" for i in range(6))
    links = [Link(names[i], names[(i + 1) % 6], 1e9 if i % 2 else 10e9) for i in range(6)]
    bound = weft.bound(Network(names, both_ways(links), regions=(), name="ring of pairs"), 3e9)
    assert bound.seconds == pytest.approx(2.0)
    assert bound.why == "the tensor must cross between 3 groups at least 4 times"


def test_a_relay_in_the_middle_may_add_what_a_switch_could_not() -> None:
    links = both_ways(Link(f"w{i}", "hub", 1e9) for i in range(3))
    workers = ("w0", "w1", "w2")
    switched = Network(workers, links, ("hub",), (), name="switch")
    relayed = Network((*workers, "hub"), links, (), (), ("hub",), name="relay")
    assert weft.bound(switched, 3e9).seconds == pytest.approx(4.0)
    assert weft.bound(relayed, 3e9).seconds == pytest.approx(3.0)
    assert pack(relayed).value * 3e9 == pytest.approx(3.0, rel=1e-3)


def test_relays_belong_to_the_group_that_they_are_cut_off_with() -> None:
    network = two_tier(2, 3, oversubscription=6)
    # Of every rack one worker is active. The others are behind the same narrow uplink.
    assert with_relays(network.graph, [[0], [3]], [1, 2, 4, 5]) == [[0, 1, 2], [3, 4, 5]]
    apart = replace(two_tier(1, 4), regions=())
    assert with_relays(apart.graph, [[0], [1], [2]], [3]) == [[0], [1], [2], [3]]


def test_what_flows_into_and_out_of_groups_is_a_cut() -> None:
    network = lopsided(dgx1(), 3)
    groups = [[0, 1, 2], [3], [4, 5, 6, 7]]
    for inward in (True, False):
        found = group_flows(network.graph, groups, inward=inward)
        for i, group in enumerate(groups):
            others = [rank for rank in range(8) if rank not in group]
            ends = (others, group) if inward else (group, others)
            assert found.capacity[i] == pytest.approx(cut_capacity(network.graph, *ends))
            assert [rank for rank in range(8) if found.inside[i, rank]] == group
