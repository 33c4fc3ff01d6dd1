from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft import InputError, Link, Network
from weft.collectives import forest
from weft.collectives.forest import forest_of
from weft.network import both_ways, dgx1, fat_tree, machines, two_tier
from weft.ordering import pipelined
from weft.packing.arborescence import cheapest_tree
from weft.packing.closure import closure_of
from weft.packing.cut_bound import cut_bound
from weft.packing.fair import fair_packings, fair_rates
from weft.packing.master import KINDS, Formulation
from weft.packing.pack import Packing, pack, packings
from weft.packing.pieces import pieces_of
from weft.packing.pricing import cheap_tree, least_cost, shallow_tree, tree_cost, tree_depth
from weft.packing.symmetry import symmetry_of

GBIT = 1e9 / 8


def random_network(seed: int) -> Network:
    """6 to 20 nodes, connected, some of them switches, some workers inactive, unequal rates."""
    draw = np.random.default_rng(seed)
    count = int(draw.integers(6, 21))
    switches = int(draw.integers(0, min(5, count - 3) + 1))
    nodes = [f"s{i}" for i in range(switches)] + [f"w{i}" for i in range(count - switches)]
    pairs = {(i, int(draw.integers(0, i))) for i in range(1, count)}
    for _ in range(int(draw.integers(0, 2 * count))):
        i, j = (int(x) for x in draw.integers(0, count, 2))
        if i != j and (j, i) not in pairs:
            pairs.add((i, j))
    links = [Link(nodes[i], nodes[j], float(draw.uniform(1, 10)) * GBIT) for i, j in sorted(pairs)]
    workers = tuple(nodes[switches:])
    inactive = tuple(name for name in workers if draw.random() < 0.25)
    if len(workers) - len(inactive) < 2:
        inactive = ()
    return Network(workers, both_ways(links), tuple(nodes[:switches]), None, inactive, f"random {seed}")


def some_active(counts: tuple[int, ...], gbit: int = 10) -> Network:
    network = machines(4, 4, nic=gbit * GBIT, pcie=100 * GBIT)
    return network.with_active([f"m{i}g{j}" for i, count in enumerate(counts) for j in range(count)])


NAMED = {
    "DGX-1": dgx1(),
    **{f"4x4 at {gbit} Gbit/s": machines(4, 4, nic=gbit * GBIT, pcie=100 * GBIT) for gbit in (10, 25, 40, 100)},
    **{f"4x4 active {counts}": some_active(counts) for counts in ((4, 1, 1, 1), (2, 2, 2, 2), (1, 1, 1, 1))},
    "two-tier 4x8, 4:1": two_tier(4, 8, oversubscription=4),
}


def check_capacity(network: Network, packing: Packing) -> None:
    """Trees span the active workers, roots balance, and no link carries more than the packing says."""
    loads = np.zeros(len(network.links))
    for tree in packing.trees:
        for rank in network.active:
            assert tree.parents[rank] != -2
        for child, parent in enumerate(tree.parents.tolist()):
            if parent >= 0:
                ends = (child, parent) if tree.kind == "reduce" else (parent, child)
                route = network.routes([ends[0]], [ends[1]])
                loads[route.links] += route.share * tree.weight
    assert (loads <= packing.value * network.graph.bandwidth * (1 + 1e-5)).all()
    for root in network.active:
        sides = [
            sum(t.weight for t in packing.trees if (t.kind, t.root) == (kind, root)) for kind in ("reduce", "broadcast")
        ]
        assert sides[0] == pytest.approx(sides[1], abs=1e-5)
    assert sum(t.weight for t in packing.trees if t.kind == "reduce") == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("network", NAMED.values(), ids=NAMED.keys())
def test_packings_of_well_known_networks_are_optimal(network: Network) -> None:
    packing = pack(network)
    assert packing.quality >= 0.99
    check_capacity(network, packing)


@pytest.mark.parametrize("seed", range(50))
def test_packings_of_random_networks_are_near_optimal(seed: int) -> None:
    network = random_network(seed)
    packing = pack(network)
    assert packing.quality >= 0.95
    check_capacity(network, packing)


def test_a_fat_tree_of_128_workers_is_packed_optimally() -> None:
    assert pack(fat_tree(8), gap=0.01).quality >= 0.99


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 6), st.data())
def test_the_cheapest_tree_is_the_cheapest_of_all_trees(n: int, data: st.DataObject) -> None:
    costs = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 6), min_size=n, max_size=n), min_size=n, max_size=n)), float
    )
    root = data.draw(st.integers(0, n - 1))
    others = [v for v in range(n) if v != root]
    least = min(
        sum(costs[p, v] for v, p in zip(others, parents, strict=True))
        for parents in itertools.product(range(n), repeat=n - 1)
        if all(p != v for v, p in zip(others, parents, strict=True))
        and _reaches(dict(zip(others, parents, strict=True)), root)
    )
    assert tree_cost(costs, cheapest_tree(costs, root)) == pytest.approx(least)


def _reaches(parent: dict[int, int], root: int) -> bool:
    for start in parent:
        here, steps = start, 0
        while here != root and steps <= len(parent):
            here, steps = parent[here], steps + 1
        if here != root:
            return False
    return True


def test_nodes_that_cannot_be_reached_cost_infinitely_much() -> None:
    costs = np.full((5, 5), np.inf)
    costs[0, 1] = costs[1, 2] = costs[3, 4] = costs[4, 3] = 1.0
    assert tree_cost(costs, cheapest_tree(costs, 0)) == np.inf


def grid(side: int) -> Network:
    names = [[f"w{i}-{j}" for j in range(side)] for i in range(side)]
    links = [Link(names[i][j], names[i + 1][j], 1e9) for i in range(side - 1) for j in range(side)]
    links += [Link(names[i][j], names[i][j + 1], 1e9) for i in range(side) for j in range(side - 1)]
    return Network(tuple(name for row in names for name in row), both_ways(links), (), (), name=f"grid {side}")


@pytest.mark.parametrize(
    ("network", "group", "roots"),
    [(grid(4), 8, 3), (grid(8), 8, 10), (dgx1(), 4, 2), (two_tier(4, 8), 32, 1), (machines(3, 8, "dgx1"), 3, 8)],
    ids=lambda x: x.name if isinstance(x, Network) else str(x),
)
def test_symmetries_are_found_and_make_the_program_small(network: Network, group: int, roots: int) -> None:
    closure = closure_of(network)
    symmetry = symmetry_of(network, closure)
    assert (len(symmetry.group), len(symmetry.roots)) == (group, roots)
    assert symmetry.size.sum() == len(network.links)
    packing = pack(network)
    assert packing.quality > 0.99
    check_capacity(network, packing)
    weft.verify(forest_of(network, packing))


def test_what_differs_in_one_link_has_no_symmetry_there() -> None:
    network = two_tier(2, 4)
    slower = replace(network, links=(replace(network.links[0], bandwidth=1e8), *network.links[1:]))
    assert len(symmetry_of(slower, closure_of(slower)).group) == 1


@settings(deadline=None, max_examples=60)
@given(st.integers(3, 7), st.data())
def test_the_bound_on_a_tree_with_relays_is_one(n: int, data: st.DataObject) -> None:
    active = data.draw(st.integers(2, n))
    costs = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=n, max_size=n)), float
    )
    best = np.inf
    for extra in itertools.chain.from_iterable(
        itertools.combinations(range(active, n), k) for k in range(n - active + 1)
    ):
        chosen = [*range(active), *extra]
        best = min(best, tree_cost(small := costs[np.ix_(chosen, chosen)].copy(), cheapest_tree(small, 0)))
    tree, cost = cheap_tree(costs, active, 0)
    assert least_cost(costs, active, 0) <= best + 1e-9 <= cost + 2e-9
    assert all(tree[v] != -2 for v in range(active))


def test_shallow_trees_keep_their_depth() -> None:
    costs = np.random.default_rng(0).random((12, 12))
    for most in (1, 2, 4):
        tree = shallow_tree(costs, 12, 3, most)
        assert tree_depth(tree) <= most
        assert tree[3] == -1


def test_pipelining_is_never_worse_than_overlapping_nor_that_than_separate_stages() -> None:
    for seed in range(12):
        network = random_network(seed)
        kinds: tuple[Formulation, ...] = ("pipelined", "overlapped", "separate")
        values = [pack(network, kind, gap=1e-6).value for kind in kinds]
        assert values[0] <= values[1] * (1 + 1e-6)
        assert values[1] <= values[2] * (1 + 1e-6)
    assert set(KINDS) == {*kinds, "broadcast"}


def test_separate_stages_on_a_star_take_twice_the_half() -> None:
    network = replace(two_tier(1, 6, bandwidth=1e9), regions=())
    for kind in KINDS:
        ways = 1 if kind == "broadcast" else 2
        assert pack(network, kind).value == pytest.approx(ways * 5 / 6 / 1e9, rel=1e-3)


def test_a_certificate_never_exceeds_what_a_schedule_reaches() -> None:
    for seed in range(8):
        network = random_network(seed)
        least = pack(network).bound * 1e8
        for name in ("ring", "rat", "parameter-server", "blink"):
            schedule = weft.collectives.COLLECTIVES[name](network).sliced(4)
            assert weft.simulate(schedule, network, 1e8).seconds >= least * (1 - 1e-9)


def test_out_of_time_the_best_so_far_comes_with_its_gap() -> None:
    packing = pack(random_network(13), gap=1e-9, seconds=0.0)
    assert 0 < packing.quality < 1
    assert packing.rounds == 0
    check_capacity(random_network(13), packing)


def test_one_worker_needs_no_trees() -> None:
    alone = two_tier(2, 2).with_active(["a0"])
    assert pack(alone).trees == ()
    assert len(forest(alone)) == 0
    with pytest.raises(InputError, match="formulation 'fancy'"):
        pack(two_tier(2, 2), "fancy")  # type: ignore[arg-type]


def test_the_pieces_of_a_forest_are_the_whole_tensor() -> None:
    packing = pack(dgx1())
    assert sum(piece[2] for piece in pieces_of(packing)) == pytest.approx(1.0, abs=1e-5)
    assert all(up.root == down.root for up, down, _ in pieces_of(packing))
    weft.verify(forest_of(dgx1(), packing))


def test_equally_fast_packings_differ_in_taste_only() -> None:
    found = packings(dgx1(), tastes=(1.0, 4.0))
    assert found[0].value == found[1].value
    for packing in found:
        check_capacity(dgx1(), packing)


@pytest.mark.parametrize("seed", range(6))
def test_pipelines_are_proved_and_never_below_the_bound(seed: int) -> None:
    network = random_network(seed)
    packing = pack(network)
    whole = forest_of(network, packing)
    fine = pipelined(whole, network, 1e8, packing.value * 1e8, 16)
    weft.verify(fine)
    assert len(fine) == 16 * len(whole)
    seconds = weft.simulate(fine, network, 1e8).seconds
    assert seconds >= packing.bound * 1e8 * (1 - 1e-9)
    assert seconds < weft.simulate(whole, network, 1e8).seconds


def test_the_order_of_a_pipeline_lets_no_channel_wait_for_what_is_listed_first() -> None:
    network = replace(dgx1(), links=tuple(replace(link, latency=20e-6) for link in dgx1().links))
    packing = pack(network)
    whole = forest_of(network, packing)
    by_step = weft.simulate(whole.segmented(64), network, 1e8).seconds
    greedy = weft.simulate(pipelined(whole, network, 1e8, packing.value * 1e8, 64), network, 1e8).seconds
    assert greedy < 0.8 * by_step


def test_fair_rates_fill_links_evenly_and_nobody_can_have_more_at_the_cost_of_those_with_more() -> None:
    network = two_tier(2, 2, bandwidth=1e9, oversubscription=2)
    # Three channels share the uplink of 1e9; the one within the rack gets what the card of a0 leaves.
    rates = fair_rates(network, [(0, 2), (0, 3), (1, 2), (0, 1)])
    assert rates == pytest.approx([1e9 / 3, 1e9 / 3, 1e9 / 3, 1e9 / 3])
    rates = fair_rates(network, [(0, 2), (1, 3), (0, 1)])
    assert rates == pytest.approx([5e8, 5e8, 5e8])


@pytest.mark.parametrize("seed", [4, 6, 10, 22, 26, 37])
def test_of_the_forests_for_fair_sharing_one_is_executed_nearly_as_fast_as_it_is_packed(seed: int) -> None:
    network = random_network(seed)
    found = packings(network)
    several = fair_packings(network, found, (2.0,))
    times = []
    for fair in several:
        check_capacity(network, fair)
        assert fair.bound >= found[0].bound
        assert fair.value >= found[0].value * (1 - 1e-6)
        schedule = pipelined(forest_of(network, fair), network, 1e8, fair.value * 1e8, 128)
        weft.verify(schedule)
        times.append(weft.simulate(schedule, network, 1e8).seconds)
    assert min(times) < 1.1 * several[0].value * 1e8


def test_channels_of_which_nothing_is_known_in_time_are_not_taken_for_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_network(4)
    found = packings(network)
    assert fair_packings(network, found, (2.0,))
    monkeypatch.setattr("weft.packing.fair.cut_bound", lambda network, seconds: cut_bound(network, seconds=0.0))
    assert fair_packings(network, found, (2.0,), seconds=0.5) == []


def test_where_no_link_is_shared_every_packing_is_fair() -> None:
    assert fair_packings(dgx1(), packings(dgx1())) == []
