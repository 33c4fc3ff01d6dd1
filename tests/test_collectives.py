"""What the papers' tables say of every collective: traffic across regions, dependent steps, costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

import weft
from weft import InputError, Network, Schedule
from weft.collectives import (
    COLLECTIVES,
    blueconnect,
    butterfly,
    double_binary_tree,
    halving_doubling,
    hierarchical,
    k_nomial,
    parameter_server,
    plink,
    rat,
    ring,
    ring_ordered,
)
from weft.collectives.rat import all_trees
from weft.collectives.trees import tree_depths
from weft.network import Link, Region, both_ways, dgx1, fat_tree, full_mesh, machines, two_tier

SIZE = 1e8
RATE = 1.25e9


def across(schedule: Schedule, network: Network, region: tuple[int, ...]) -> float:
    """What leaves a region, in tensors."""
    inside = set(region)
    sizes = schedule.transfer_bytes(1.0).tolist()
    return sum(
        float(size)
        for t, size in zip(schedule, sizes, strict=True)
        if t.source in inside and t.destination not in inside
    )


# Table 1 of the RAT paper: the number of dependent steps. w workers, w_r in every rack, l levels of regions.


@pytest.mark.parametrize("racks", [2, 4])
@pytest.mark.parametrize("per_rack", [2, 4, 8])
def test_dependent_steps_are_those_of_table_1(racks: int, per_rack: int) -> None:
    network = two_tier(racks, per_rack, oversubscription=4)
    w = racks * per_rack
    assert parameter_server(network).depth == 2
    assert ring(network).depth == 2 * (w - 1)
    assert butterfly(network).depth == math.log2(w)
    assert halving_doubling(network).depth == 2 * math.log2(w)
    assert k_nomial(network, 2).depth == 2 * math.log2(w)
    assert plink(network).depth == 4
    assert rat(network).depth == 2 * (network.region_tree.levels + 1)
    # The table has 2(l + max w_r) for BlueConnect: its rings count their members, and racks add one step a level.
    # Counted hop by hop, rings of w_r and of the racks take w_r - 1 and racks - 1 steps each way.
    assert blueconnect(network).depth == 2 * ((per_rack - 1) + (racks - 1))
    if racks == 2:
        assert blueconnect(network).depth <= 2 * (network.region_tree.levels + per_rack)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_k_nomial_tree_is_log_k_deep(k: int, power: int) -> None:
    assert k_nomial(full_mesh(k**power), k).depth == 2 * power


def test_rat_takes_two_steps_for_every_level_and_two_more() -> None:
    assert rat(full_mesh(6)).depth == 2
    assert rat(two_tier(3, 3)).depth == 4
    assert rat(fat_tree(4)).depth == 6
    assert plink(fat_tree(4)).depth == 4


# Table 1 again: who sends the least across an uplink. R regions must exchange 2(R - 1)/R of the tensor each.


@pytest.mark.parametrize("racks", [2, 3, 4])
def test_traffic_across_regions_is_least_where_table_1_says_so(racks: int) -> None:
    network = two_tier(racks, 4, oversubscription=4)
    rack = network.region_tree.regions[0].workers
    least = 2 * (racks - 1) / racks
    w = racks * 4
    assert across(rat(network), network, rack) == pytest.approx(least)
    assert across(blueconnect(network), network, rack) == pytest.approx(least)
    assert across(hierarchical(network), network, rack) == pytest.approx(least)
    # The ring sends once around: as good as the least for many workers, and never more than twice the tensor.
    assert across(ring(network), network, rack) == pytest.approx(2 * (w - 1) / w)
    assert across(parameter_server(network), network, rack) == pytest.approx(4 * least)
    assert across(butterfly(network), network, rack) > least
    if racks != 3:
        assert across(halving_doubling(network), network, rack) <= across(butterfly(network), network, rack)


def test_plink_sends_more_than_rat_across_pods_where_regions_nest() -> None:
    network = fat_tree(4)
    pod = network.region_tree.regions[0].workers
    assert across(rat(network), network, pod) == pytest.approx(1.5)
    assert across(plink(network), network, pod) > 2


# Tables I and II of the DS-Sync paper: latency and transfer delay with L = 1, N workers in C racks of G.


def star(n: int, latency: float = 0.0) -> Network:
    return replace(two_tier(1, n, RATE, latency=latency / 2), regions=())


@pytest.mark.parametrize("n", [2, 3, 5, 8, 13])
@pytest.mark.parametrize("servers", [1, 2])
def test_parameter_server_costs_are_those_of_table_i(n: int, servers: int) -> None:
    network = star(n)
    schedule = parameter_server(network, servers)
    expected = 2 * (n - 1) * SIZE / RATE / servers
    assert weft.simulate(schedule, network, SIZE).seconds == pytest.approx(expected, rel=1e-12)
    # Its latency of 2(N - 1) counts the messages that a server handles; they travel side by side, in two steps.
    assert sum(t.destination == 0 or t.source == 0 for t in parameter_server(network, 1)) == 2 * (n - 1)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 13, 64])
@pytest.mark.parametrize("alpha", [0.0, 5e-6])
def test_ring_costs_are_those_of_table_i(n: int, alpha: float) -> None:
    network = star(n, alpha)
    expected = 2 * (n - 1) / n * SIZE / RATE + 2 * (n - 1) * alpha
    assert weft.simulate(ring(network), network, SIZE).seconds == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [4, 7, 8, 15, 16, 31])
@pytest.mark.parametrize("k", [8, 64])
def test_double_tree_costs_are_within_table_i(n: int, k: int) -> None:
    network = star(n)
    # The table cuts the tensor into k chunks; two trees of k / 2 segments each do. Its reductions end before copies begin.
    schedule = double_binary_tree(network).segmented(k // 2)
    phases = [
        Schedule.of_transfers(n, schedule.chunk_weights.copy(), [t for t in schedule if t.op == op])
        for op in ("reduce", "copy")
    ]
    in_turn = sum(weft.simulate(phase, network, SIZE).seconds for phase in phases)
    depth = math.ceil(math.log2(n))
    # Two children share their parent's link, so that a chunk takes up to two units for a hop where the table counts one.
    assert in_turn <= 2 * (2 * depth + k) * SIZE / RATE / k * (1 + 1e-9)
    if k == 64:
        assert in_turn == pytest.approx(2 * (depth + k) * SIZE / RATE / k, rel=0.05)
    # Run as it is, copies share the links with the reductions that are still under way; that is never much slower.
    assert weft.simulate(schedule, network, SIZE).seconds <= 1.4 * in_turn


@pytest.mark.parametrize("alpha", [0.0, 5e-6])
@pytest.mark.parametrize(("c", "g"), [(2, 4), (4, 4), (3, 5), (8, 2)])
def test_hierarchical_costs_are_those_of_table_ii(c: int, g: int, alpha: float) -> None:
    uplink = RATE / 4
    network = two_tier(c, g, RATE, uplink=uplink, latency=0.0)
    seconds = weft.simulate(hierarchical(network), network, SIZE).seconds
    assert seconds == pytest.approx(2 * (g - 1) / g * SIZE / RATE + 2 * (c - 1) / c * SIZE / uplink, rel=1e-9)
    assert hierarchical(network).depth == 2 * (g + c - 2)


@pytest.mark.parametrize(("c", "g"), [(2, 4), (4, 4), (3, 5)])
def test_ring_and_parameter_server_costs_across_racks_are_those_of_table_ii(c: int, g: int) -> None:
    uplink = RATE / (4 * g)
    network = two_tier(c, g, RATE, uplink=uplink)
    n = c * g
    assert weft.simulate(ring(network), network, SIZE).seconds == pytest.approx(
        2 * (n - 1) / n * SIZE / uplink, rel=1e-9
    )
    # With N servers the uplink carries 2(C - 1)G/N of the tensor for each of the G workers behind it.
    seconds = weft.simulate(parameter_server(network), network, SIZE).seconds
    assert seconds == pytest.approx(2 * (c - 1) * g * SIZE / uplink / n * g, rel=0.02)


# The collectives themselves.


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 33])
@pytest.mark.parametrize("name", sorted(COLLECTIVES))
def test_every_collective_works_for_any_number_of_workers(name: str, n: int) -> None:
    for network in (full_mesh(n), star(n)):
        schedule = COLLECTIVES[name](network)
        weft.verify(schedule)
        assert schedule.participants == tuple(range(n))
        assert schedule.name == name.replace("-", "_")


@pytest.mark.parametrize("n", [2, 3, 4, 6, 7, 8, 9, 16, 33])
def test_nobody_is_in_the_middle_of_both_binary_trees(n: int) -> None:
    schedule = double_binary_tree(full_mesh(n))
    inner: list[set[int]] = [set(), set()]
    for t in schedule:
        if t.op == "reduce":
            inner[t.chunk].add(t.destination)
    assert not inner[0] & inner[1]
    assert schedule.depth <= 2 * math.ceil(math.log2(n + 1))


@pytest.mark.parametrize("n", [4, 5, 8, 12, 16])
def test_halving_and_doubling_costs_two_messages_a_step(n: int) -> None:
    power = 1 << (n.bit_length() - 1)
    schedule = halving_doubling(full_mesh(n))
    assert len(schedule) == 2 * power * math.log2(power) + 2 * (n - power)
    alpha = 1e-4
    if n == power:
        seconds = weft.simulate(schedule, star(n, alpha), SIZE).seconds
        assert seconds == pytest.approx(2 * math.log2(n) * alpha + 2 * (n - 1) / n * SIZE / RATE, rel=1e-9)


def test_the_ordered_ring_finishes_a_rack_before_it_enters_the_next() -> None:
    network = two_tier(2, 4, RATE, uplink=RATE)
    mixed = replace(network, workers=tuple(f"{rack}{i}" for i in range(4) for rack in "ab"))
    plain, ordered = (weft.simulate(collective(mixed), mixed, SIZE).seconds for collective in (ring, ring_ordered))
    assert ordered == pytest.approx(2 * 7 / 8 * SIZE / RATE)
    assert plain == pytest.approx(4 * ordered)


def test_all_trees_of_the_papers_example_are_32() -> None:
    network = two_tier(2, 4)
    parents = all_trees(network, network.region_tree)
    assert len(parents) == 4 * 4 * 2
    assert len({tuple(row) for row in parents.tolist()}) == 32
    assert tree_depths(parents).max() == 2
    weft.verify(rat(network, trees="all"))


def test_balanced_trees_make_everybody_root_once_and_aggregator_equally_often() -> None:
    network = two_tier(4, 8)
    schedule = rat(network)
    received = {(t.chunk, t.destination) for t in schedule if t.op == "reduce"}
    per_worker = [sum(worker == rank for _, worker in received) for rank in range(32)]
    assert len(schedule.chunk_weights) == 32
    assert set(per_worker) == {4}


def test_drawn_trees_are_the_same_for_the_same_seed() -> None:
    network = two_tier(4, 8)
    assert rat(network, trees=10, seed=3) == rat(network, trees=10, seed=3)
    assert rat(network, trees=10, seed=3) != rat(network, trees=10, seed=4)
    weft.verify(rat(network, trees=10, seed=3))


def unequal_racks() -> Network:
    racks = {"a": 5, "b": 3}
    links = [Link(f"{rack}{i}", f"tor-{rack}", RATE) for rack, size in racks.items() for i in range(size)]
    links += [Link(f"tor-{rack}", "core", RATE) for rack in racks]
    regions = tuple(Region(rack, tuple(f"{rack}{i}" for i in range(size))) for rack, size in racks.items())
    workers = tuple(name for region in regions for name in region.workers)
    return Network(workers, both_ways(links), ("tor-a", "tor-b", "core"), regions)


def with_slow_worker() -> Network:
    network = two_tier(2, 4, RATE, oversubscription=4)
    slower = (replace(x, bandwidth=RATE / 4) if "a1" in (x.source, x.destination) else x for x in network.links)
    return replace(network, links=tuple(slower))


@pytest.mark.parametrize(("make", "gain"), [(unequal_racks, 1.2), (with_slow_worker, 1.15)])
def test_weights_from_the_linear_program_beat_equal_ones(make: Callable[[], Network], gain: float) -> None:
    network = make()
    equal, weighed = (weft.simulate(rat(network, weights=w), network, SIZE).seconds for w in ("equal", "lp"))
    assert equal / weighed > gain
    assert rat(network) == rat(network, weights="lp")


def test_equal_networks_need_no_linear_program() -> None:
    network = two_tier(4, 4)
    assert rat(network) == rat(network, weights="equal")


def test_blueconnect_and_hierarchical_differ_only_where_regions_nest() -> None:
    assert blueconnect(two_tier(3, 4)) == hierarchical(two_tier(3, 4))
    assert blueconnect(fat_tree(4)) != hierarchical(fat_tree(4))
    assert blueconnect(fat_tree(4)).depth < hierarchical(fat_tree(4)).depth


def test_racks_of_unequal_size_are_scattered_piece_by_piece() -> None:
    network = unequal_racks()
    for collective in (hierarchical, blueconnect):
        schedule = collective(network)
        weft.verify(schedule)
        assert across(schedule, network, (0, 1, 2, 3, 4)) == pytest.approx(1.0)


def test_blink_uses_all_nvlinks_of_a_machine() -> None:
    network = dgx1()
    result = weft.simulate(COLLECTIVES["blink"](network).segmented(32), network, 1e9)
    # One GPU has six links of 25 GB/s: a reduction to it and a broadcast from it take 2 S / 150 GB/s at the least.
    assert result.seconds < 1.5 * 2 * 1e9 / 150e9
    assert weft.simulate(COLLECTIVES["blink"](machines(2, 8, "dgx1")), machines(2, 8, "dgx1"), 1e9).seconds > 0


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda n: parameter_server(n, 0), "0 servers"),
        (lambda n: parameter_server(n, 9), "9 servers"),
        (lambda n: k_nomial(n, 1), "1-nomial"),
        (lambda n: rat(n, trees=0), "0 trees"),
        (lambda n: COLLECTIVES["rat"](n, trees="most"), "'most' trees"),
        (lambda n: COLLECTIVES["rat"](n, weights="heavy"), "'heavy' are unknown"),
        (lambda n: rat(two_tier(8, 16), trees="all"), "too many"),
    ],
)
def test_impossible_options_are_refused(call: Callable[[Network], Schedule], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        call(two_tier(2, 4))
