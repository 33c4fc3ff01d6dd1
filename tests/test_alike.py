from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from test_packing import check_capacity, random_network
from weft import Network
from weft.collectives.forest import forest_of
from weft.network import dgx1, fat_tree, full_mesh, machines, two_tier
from weft.packing.alike import Merged, merged
from weft.packing.closure import Closure, Ints, closure_of
from weft.packing.master import KINDS, Formulation
from weft.packing.pack import pack
from weft.packing.search import Search
from weft.packing.seeds import seed_trees
from weft.packing.symmetry import no_symmetry
from weft.reproductions.gpu_networks import first_of_each, gpu_mesh, with_active


def unmerged_value(network: Network, formulation: Formulation = "pipelined") -> float:
    """What the search reaches with every idle worker by itself; exact for up to six."""
    closure = closure_of(network)
    roots = np.arange(closure.active, dtype=np.int32)
    search = Search(closure, no_symmetry(closure, roots), formulation, seed_trees(network, closure))
    search.begin(1e-6)
    while search.bound < search.value * (1 - 1e-6) and search.improve():
        pass
    return search.value / closure.unit


def random_tree(closure: Closure, draw: np.random.Generator) -> Ints:
    """Over all nodes of a closure, from a random root among the active ones."""
    order = [int(draw.integers(closure.active))]
    parents = np.full(closure.n, -1, dtype=np.int32)
    for node in draw.permutation([v for v in range(closure.n) if v != order[0]]).tolist():
        parents[node] = order[int(draw.integers(len(order)))]
        order.append(node)
    return parents


def merged_of(network: Network) -> Merged:
    small = merged(closure_of(network))
    assert small is not None
    return small


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 3), min_size=2, max_size=3), st.booleans())
def test_spread_over_its_turns_a_tree_loads_all_links_of_an_orbit_alike(seed: int, counts: list[int], up: bool) -> None:
    counts[0] = max(counts[0], 1)
    every = gpu_mesh(len(counts), 5, 10) if seed % 2 else machines(len(counts), 5)
    network = with_active(every, first_of_each(counts))
    closure, small = closure_of(network), merged_of(network)
    draw = np.random.default_rng(seed)
    tree = random_tree(small.closure, draw)
    turns = small.turns(tree, 10**9, draw)
    assert all(len({m for m in members if turn[m] != -2}) == 1 for members in small.members for turn in turns)
    whole = np.zeros(len(closure.bandwidth))
    for turn in turns:
        links, loads = closure.loads(turn, up)
        whole[links] += loads / len(turns)
    links, loads = small.closure.loads(tree, up)
    # No link is busier than the one that it was merged into.
    assert (whole / closure.bandwidth).max() == pytest.approx((loads / small.closure.bandwidth[links]).max())
    assert whole.sum() == pytest.approx(loads.sum())


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=3), st.sampled_from(list(KINDS)), st.sampled_from([2, 10, 100]))
def test_merging_changes_no_value(counts: list[int], formulation: Formulation, gbit: int) -> None:
    counts = [max(counts[0], 2), *counts[1:]]
    network = with_active(gpu_mesh(len(counts), 4 if len(counts) == 2 else 3, gbit), first_of_each(counts))
    if not network.inactive or len(network.inactive) > 6:
        return
    packing = pack(network, formulation, gap=1e-6)
    assert packing.value == pytest.approx(unmerged_value(network, formulation), rel=1e-4)
    assert packing.bound <= packing.value * (1 + 1e-9)


@pytest.mark.parametrize("counts", [(1, 1, 0, 0), (2, 0, 0, 0), (1, 1, 1, 0), (2, 1, 1, 0), (1, 1, 1, 1), (4, 1, 1, 1)])
def test_few_active_of_sixteen_are_packed_optimally(counts: tuple[int, ...]) -> None:
    network = with_active(gpu_mesh(4, 4, 10), first_of_each(counts))
    packing = pack(network)
    assert packing.quality >= 0.997
    check_capacity(network, packing)
    weft.verify(forest_of(network, packing))


@pytest.mark.parametrize("formulation", ["overlapped", "separate"])
def test_every_stage_is_spread(formulation: Formulation) -> None:
    network = with_active(gpu_mesh(3, 3, 10), first_of_each((2, 1, 0)))
    packing = pack(network, formulation)
    assert packing.quality >= 0.99
    weft.verify(forest_of(network, packing))


def test_with_more_turns_than_trees_are_wanted_the_packing_still_fits() -> None:
    network = with_active(gpu_mesh(4, 4, 10), first_of_each((2, 1, 1, 0)))
    small = merged_of(network)
    draw = np.random.default_rng(0)
    chain = np.array([-1, 0, 0, 0, 0, 4, 5, 6], dtype=np.int32)
    assert small.closure.n == len(chain)
    every = small.turns(chain, 10**9, draw)
    some = small.turns(chain, 5, draw)
    assert len(some) == 5 < len(every)
    assert {turn.tobytes() for turn in some} < {turn.tobytes() for turn in every}


def test_hosts_behind_one_switch_are_merged() -> None:
    network = two_tier(2, 4, oversubscription=2)
    closure = closure_of(network.with_active(["a0", "b0", "b1"]))
    small = merged(closure)
    assert small is not None
    assert [len(members) for members in small.members] == [1, 1, 1, 3, 2]
    check_capacity(half := network.with_active(["a0", "b0", "b1"]), pack(half))


def test_what_differs_is_not_merged() -> None:
    mesh = full_mesh(5)
    two = mesh.with_active(mesh.workers[:2])
    assert len(merged_of(two).closure.ranks) == 3
    slower = tuple(replace(x, bandwidth=x.bandwidth / 2) if mesh.workers[4] in (x.source, x.destination) else x
                   for x in two.links)  # fmt: skip
    assert sorted(len(m) for m in merged_of(replace(two, links=slower)).members) == [1, 1, 1, 2]
    # In a DGX-1, swapping two GPUs changes who is linked to whom.
    assert merged(closure_of(dgx1().with_active(dgx1().workers[:2]))) is None
    assert merged(closure_of(mesh)) is None
    # One link, in one direction: the two at its ends are alike with nobody any more, not even with each other.
    ends = mesh.workers[3], mesh.workers[4]
    uneven = tuple(replace(x, bandwidth=2e9) if (x.source, x.destination) == ends else x for x in two.links)
    assert merged(closure_of(replace(two, links=uneven))) is None


@pytest.mark.parametrize("seed", range(100, 120))
def test_merging_loses_nothing_on_random_networks(seed: int) -> None:
    network = random_network(seed)
    packing = pack(network)
    assert packing.quality >= 0.95
    check_capacity(network, packing)


def test_hashed_routes_are_merged_only_if_they_are_the_same() -> None:
    network = fat_tree(4)
    half = network.with_active(network.workers[::2])
    packing = pack(half)
    check_capacity(half, packing)
    weft.verify(forest_of(half, packing))


def test_out_of_time_not_all_roots_are_priced_and_nothing_is_claimed_of_the_others() -> None:
    network = with_active(gpu_mesh(3, 4, 10), first_of_each((4, 3, 0)))
    closure = closure_of(network)
    roots = np.arange(closure.active, dtype=np.int32)
    search = Search(closure, no_symmetry(closure, roots), "pipelined", seed_trees(network, closure), seconds=0.0)
    search.begin(0.0)
    trees, least = search.cheapest(closure.costs(1.0 / closure.bandwidth))
    assert 0 < len(trees) < len(roots)
    assert (least[: len(trees)] > 0).all()
    assert (least[len(trees) :] == 0).all()
    search.improve()
    assert search.bound == 0.0
