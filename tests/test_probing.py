"""What a probe infers from rates that are disturbed as those of real connections are: no sockets, no clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.racks import drawn_network, racks_of, true_regions
from benchmarks.scenarios import MBIT
from hypothesis import given
from hypothesis import strategies as st

from probe_bed import Bed
from weft import Network
from weft.network import Link, both_ways
from weft.probing import NOBODY, Findings, Round, findings_of, investigate, most_rounds, pairing_rounds
from weft.probing.design import calm_of
from weft.probing.sharing import fair_rates

REAL = {"noise": 0.05, "unfair": 0.3, "glitches": 0.04}
ROUGH = {"noise": 0.08, "unfair": 0.3, "glitches": 0.02}


def found_on(network: Network, seed: int = 1, disturbed: Mapping[str, float] = REAL) -> tuple[Findings, Bed]:
    """What is inferred on a network, whose connections are disturbed like this."""
    workers = len(network.workers)
    bed = Bed(network, seed, **disturbed)
    investigation = investigate(bed.measure, workers)
    return findings_of(investigation, np.full((workers, workers), 1e-4), network.workers), bed


def regions_of(found: Findings) -> set[frozenset[int]]:
    return {frozenset(region) for region in found.regions}


def rate(network: Network, source: str, towards: str = "") -> float:
    """Of the link from a node, or of the one that leads to another; both may be beginnings of names."""
    return next(x.bandwidth for x in network.links if x.source.startswith(source) and x.destination.startswith(towards))


def switch_of(network: Network, worker: str) -> str:
    return next(link.destination for link in network.links if link.source == worker)


# Rounds


@given(st.integers(2, 40))
def test_every_pair_meets_once_and_nobody_has_two_at_a_time(workers: int) -> None:
    met = [
        frozenset((source, to))
        for one in pairing_rounds(workers)
        for source, to in enumerate(one.destinations)
        if to != NOBODY and source < to
    ]
    assert len(met) == len(set(met)) == workers * (workers - 1) // 2
    assert len(pairing_rounds(workers)) == workers - 1 + workers % 2


@pytest.mark.parametrize("destinations", [(1, 0, 1), (0, 1)])
def test_a_round_in_which_streams_meet_cannot_be(destinations: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError):
        Round(destinations)


def test_the_compiled_shares_are_those_of_the_reference() -> None:
    for seed in range(20):
        network = drawn_network(seed)
        workers = len(network.workers)
        bed = Bed(network, seed, noise=0, unfair=0, glitches=0)
        to = [int(k) for k in np.roll(np.random.default_rng(seed).permutation(workers), 1)]
        one = Round(tuple(NOBODY if there == here else there for here, there in enumerate(to)))
        racks = sorted(map(sorted, true_regions(network)))
        labels = np.array([next(k for k, rack in enumerate(racks) if rank in rack) for rank in range(workers)])
        hosts = np.array([rate(network, name) for name in network.workers])
        uplinks = [rate(network, switch_of(network, network.workers[rack[0]]), "core") for rack in racks]
        rates, limits = fair_rates(np.array(one.destinations), hosts, labels, np.array(uplinks))
        assert rates == pytest.approx(bed.measure(one))
        assert all((limit >= 0) == (there != NOBODY) for limit, there in zip(limits, one.destinations, strict=True))


# Regions


def test_regions_are_found_on_networks_drawn_at_random() -> None:
    """All but one at least, of the first four with up to ten workers."""
    drawn = ((seed, drawn_network(seed)) for seed in range(91_000, 91_100))
    small = [(seed, network) for seed, network in drawn if len(network.workers) <= 10][:4]
    wrong = {}
    for seed, network in small:
        found, bed = found_on(network, seed)
        assert bed.rounds <= most_rounds(len(network.workers))
        assert found.fit_error < 0.12
        if regions_of(found) != true_regions(network):
            wrong[seed] = found.regions
    assert len(wrong) <= 1, wrong


@pytest.mark.parametrize(
    ("sizes", "uplinks", "slow", "order", "disturbed"),
    [
        ([2, 2], [400, 400], {}, [0, 1, 2, 3], ROUGH),
        ([4, 4], [400, 400], {}, [0, 4, 1, 5, 2, 6, 3, 7], ROUGH),
        ([4, 4], [400, 400], {2: 100}, [0, 1, 2, 3, 4, 5, 6, 7], REAL),
        ([2, 2, 2, 2], [100, 100, 100, 100], {}, [0, 2, 4, 6, 1, 3, 5, 7], REAL),
        ([3, 3], [400, 400], {}, [0, 1, 2, 3, 4, 5], REAL),
        ([4, 3], [400, 400], {}, [0, 1, 2, 3, 4, 5, 6], ROUGH),
        ([4, 4, 4], [400, 400, 400], {1: 100, 9: 100}, [5, 0, 9, 1, 10, 2, 6, 11, 3, 7, 4, 8], REAL),
        ([8, 8], [800, 800], {}, list(range(16)), ROUGH),
    ],
    ids=["2+2", "4+4 interleaved", "4+4 one slow", "2+2+2+2 interleaved", "3+3", "4+3", "4+4+4 two slow", "8+8"],
)  # fmt: skip
def test_racks_and_rates_are_found(
    sizes: list[int], uplinks: list[float], slow: dict[int, float], order: list[int], disturbed: dict[str, float]
) -> None:
    some_slow = {worker: bandwidth * MBIT for worker, bandwidth in slow.items()}
    network = racks_of(sizes, [uplink * MBIT for uplink in uplinks], some_slow, order)
    found, _ = found_on(network, disturbed=disturbed)
    assert regions_of(found) == true_regions(network)
    for name in network.workers:
        assert rate(found.network, name) == pytest.approx(rate(network, name), rel=0.15), name
        uplink = rate(found.network, switch_of(found.network, name), "core")
        assert uplink == pytest.approx(rate(network, switch_of(network, name), "core"), rel=0.15), name


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_without_narrow_uplinks_all_workers_are_one_region(workers: int) -> None:
    names = tuple(f"w{k}" for k in range(workers))
    slow = [400 * MBIT if k != 5 else 100 * MBIT for k in range(workers)]
    links = [Link(name, "s", bandwidth) for name, bandwidth in zip(names, slow, strict=True)]
    found, _ = found_on(Network(names, both_ways(links), ("s",), ()))
    assert found.regions == (tuple(range(workers)),)
    assert found.network.switches == ("switch",)
    if workers > 1:
        for name, bandwidth in zip(names, slow, strict=True):
            assert rate(found.network, name) == pytest.approx(bandwidth, rel=0.15)


# What cannot be known


def test_which_of_two_in_a_rack_is_slow_cannot_be_known_behind_an_uplink_that_is_no_faster() -> None:
    """To each other they send at the lower of their rates, and to all others at no more than their uplink: either may be slow."""
    network = racks_of([2, 4], [100 * MBIT, 400 * MBIT], {0: 200 * MBIT}, list(range(6)))
    found, _ = found_on(network)
    assert regions_of(found) == true_regions(network)
    rates = [rate(found.network, name) for name in ("a0", "a1")]
    assert min(rates) == pytest.approx(200 * MBIT, rel=0.15)


def test_of_two_racks_one_uplink_alone_is_felt_and_the_other_said_not_to_be() -> None:
    """All that crosses uses both uplinks and the narrower one holds it back: which one that is cannot be known."""
    network = racks_of([4, 4], [200 * MBIT, 800 * MBIT], {}, [0, 4, 1, 5, 2, 6, 3, 7])
    found, _ = found_on(network)
    assert regions_of(found) == true_regions(network)
    assert sorted(found.uplinks_felt) == [False, True]


def test_an_uplink_that_carries_all_its_workers_divides_nobody() -> None:
    network = racks_of([4, 4], [1600 * MBIT, 1600 * MBIT], {}, list(range(8)))
    assert found_on(network)[0].regions == (tuple(range(8)),)


def test_a_rack_that_is_wider_than_all_others_is_found_where_they_can_fill_it() -> None:
    """Three streams to three racks carry 667 + 500 + 1000 Mbit/s, if nobody else sends; its uplink carries 1500."""
    network = racks_of([2, 2, 3, 2], [r * MBIT for r in (667, 500, 1500, 1000)], {}, list(range(9)), 1000 * MBIT)
    found, _ = found_on(network)
    assert regions_of(found) == true_regions(network)
    assert all(found.uplinks_felt)


# Bounds


def test_rates_without_any_sense_end_within_the_rounds_allowed() -> None:
    for workers in (3, 6):
        random = np.random.default_rng(workers)
        rounds = 0

        def nonsense(one: Round, random: np.random.Generator = random) -> list[float]:
            nonlocal rounds
            rounds += 1
            return [0.0 if to == NOBODY else float(random.lognormal(16, 1)) for to in one.destinations]

        investigation = investigate(nonsense, workers)
        assert rounds <= most_rounds(workers) <= 5 * workers + 17
        found = findings_of(investigation, np.full((workers, workers), 1e-4), [f"w{k}" for k in range(workers)])
        assert sorted(rank for region in found.regions for rank in region) == list(range(workers))
        assert found.fit_error > 0.15, "what cannot be explained must show"


def busy_bed(network: Network, streams: int) -> tuple[Bed, list[tuple[int, list[float]]]]:
    """A machine that is too slow for more than so many streams at once: then all get what they should by any factor up to 1."""
    bed, seen = Bed(network, 1, noise=0.01, unfair=0.2, glitches=0.0), []
    random, measure = np.random.default_rng(2), bed.measure

    def busy(one: Round) -> list[float]:
        rates = measure(one)
        if one.streams > streams:
            rates = [rate * float(random.uniform(0.3, 1.0)) for rate in rates]
        seen.append((one.streams, rates))
        return rates

    bed.measure = busy  # type: ignore[method-assign]
    return bed, seen


def test_a_machine_that_is_too_slow_for_many_streams_is_given_few() -> None:
    network = racks_of(
        [5, 4, 2], [1062 * MBIT, 812 * MBIT, 500 * MBIT], {1: 250 * MBIT, 6: 250 * MBIT}, list(range(11)), 1e9 / 8
    )
    bed, seen = busy_bed(network, 5)
    found = investigate(bed.measure, 11)
    assert {frozenset(region) for region in found.best.regions} == true_regions(network)
    later = [streams for streams, _ in seen[found.pairing_rounds + 4 + 3 :]]
    assert np.mean(later) <= 6, later
    calm, busy = Bed(network, 1, noise=0.01, unfair=0.2, glitches=0.0), found.measured
    assert calm_of(found.best, busy)(3) > 2 * calm_of(found.best, busy)(11)
    rested = investigate(calm.measure, 11)
    assert calm_of(rested.best, rested.measured)(11) > 0.7


def test_streams_of_which_nothing_came_do_not_break_the_inference() -> None:
    network = racks_of([3, 3], [400 * MBIT, 400 * MBIT], {}, list(range(6)))
    bed = Bed(network, 1, **REAL)
    investigation = investigate(lambda one: [0.0 if k == 1 else x for k, x in enumerate(bed.measure(one))], 6)
    found = findings_of(investigation, np.full((6, 6), 1e-4), network.workers)
    assert np.isfinite(found.fit_error)
    assert all(link.bandwidth > 0 for link in found.network.links)


@pytest.mark.parametrize("allowed", [1, 5, 12])
def test_no_round_begins_when_the_time_is_over(allowed: int) -> None:
    bed = Bed(racks_of([4, 4], [400 * MBIT, 400 * MBIT], {}, list(range(8))), 1, **REAL)
    investigate(bed.measure, 8, lambda: bed.rounds >= allowed)
    assert bed.rounds == allowed


# One way and the other


def test_a_way_on_which_somebody_else_sends_has_less_left_than_the_other() -> None:
    network = racks_of([4, 4], [400 * MBIT, 400 * MBIT], {}, list(range(8)))
    route = {link.name for link in network.route("a0", "b1")}
    shared = replace(
        network,
        links=tuple(replace(x, bandwidth=x.bandwidth / 2) if x.name in route else x for x in network.links),
    )
    found = found_on(shared)[0]
    assert regions_of(found) == true_regions(network)
    for name in network.workers:
        out, into = (rate(found.network, *ends) for ends in ((name, "tor"), ("tor", name)))
        assert out == pytest.approx((200 if name == "a0" else 400) * MBIT, rel=0.15)
        assert into == pytest.approx((200 if name == "b1" else 400) * MBIT, rel=0.15)
    crossing = min(link.bandwidth for link in found.network.route("a1", "b0"))
    back = min(link.bandwidth for link in found.network.route("b0", "a1"))
    assert crossing == pytest.approx(200 * MBIT, rel=0.15)
    assert back == pytest.approx(400 * MBIT, rel=0.15)


def test_chance_does_not_make_ways_differ() -> None:
    for seed in range(6):
        network = racks_of([4, 3], [400 * MBIT, 400 * MBIT], {1: 100 * MBIT}, list(range(7)))
        found = found_on(network, seed, ROUGH)[0].network
        both = {(link.source, link.destination): link.bandwidth for link in found.links}
        assert all(both[there, here] == rate for (here, there), rate in both.items())


# What is said of it


def test_the_fit_error_is_that_of_the_measurements() -> None:
    network = racks_of([4, 4], [400 * MBIT, 400 * MBIT], {}, list(range(8)))
    exact = found_on(network, disturbed={"noise": 0, "unfair": 0, "glitches": 0})[0].fit_error
    noisy = found_on(network, disturbed={"noise": 0.06, "unfair": 0.2, "glitches": 0})[0].fit_error
    assert exact < 0.01
    # Half of all normal deviations are above 0.67 of a standard deviation; streams that share a link average theirs.
    assert 0.015 < noisy < 0.06


def test_the_network_can_be_written_and_read_back() -> None:
    found, _ = found_on(racks_of([4, 3], [400 * MBIT, 400 * MBIT], {2: 100 * MBIT}, [0, 4, 1, 5, 2, 6, 3]))
    assert Network.parse(found.network.to_yaml()) == found.network
    assert [
        [found.network.workers.index(name) for name in region.workers] for region in found.network.regions or ()
    ] == [list(region) for region in found.regions]


def test_latencies_inside_and_between_regions_become_those_of_links() -> None:
    network = racks_of([3, 3], [400 * MBIT, 400 * MBIT], {}, list(range(6)))
    bed = Bed(network, 1, **REAL)
    latencies = np.full((6, 6), 300e-6)
    latencies[:3, :3] = latencies[3:, 3:] = 100e-6
    found = findings_of(investigate(bed.measure, 6), latencies, network.workers).network
    assert sum(link.latency for link in found.route("a0", "a1")) == pytest.approx(100e-6)
    assert sum(link.latency for link in found.route("a0", "b1")) == pytest.approx(300e-6)


def test_pairs_say_what_they_reach_alone() -> None:
    network = racks_of([4, 4], [400 * MBIT, 400 * MBIT], {2: 100 * MBIT}, list(range(8)))
    pairs = {(pair.source, pair.destination): pair for pair in found_on(network)[0].pairs}
    assert len(pairs) == 8 * 7
    assert pairs[0, 5].alone == pytest.approx(400 * MBIT, rel=0.15)
    assert pairs[2, 5].alone == pytest.approx(100 * MBIT, rel=0.15)
    assert pairs[0, 5].latency == 1e-4
