from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from strategies import random_networks
from weft import InputError, Network
from weft.collectives import forest
from weft.collectives.forest import forest_of
from weft.network import dgx1, full_mesh, machines, two_tier
from weft.packing.few import few_trees
from weft.packing.pack import pack
from weft.packing.pieces import Piece, pieces_of
from weft.packing.pricing import tree_depth

GBIT = 1e9 / 8


def value_of(network: Network, pieces: list[Piece]) -> float:
    """Seconds a byte on the busiest link, when the pieces share the tensor in proportion to their parts."""
    loads = np.zeros(len(network.links))
    whole = sum(part for _, _, part in pieces)
    for up, down, part in pieces:
        for tree, upwards in ((up, True), (down, False)):
            children = np.flatnonzero(tree.parents >= 0).astype(np.int32)
            parents = tree.parents[children]
            routes = network.routes(children, parents) if upwards else network.routes(parents, children)
            np.add.at(loads, routes.links, routes.share * part / whole)
    return float((loads / network.graph.bandwidth).max())


def heaviest(network: Network, most: int) -> float:
    """What the heaviest pieces of the best packing reach."""
    pieces = sorted(pieces_of(pack(network)), key=lambda piece: -piece[2])
    return value_of(network, pieces[:most])


def few_checked(network: Network, most: int, seconds: float) -> float:
    """The value, after checking that it is what the trees really reach and that losses are stated."""
    packing = few_trees(network, most, seconds=seconds)
    pieces = pieces_of(packing)
    assert len(pieces) <= most
    assert value_of(network, pieces) == pytest.approx(packing.value, rel=1e-5)
    assert packing.unlimited is not None
    assert packing.loss == pytest.approx(packing.value / packing.unlimited - 1)
    assert packing.loss >= -1e-6
    assert packing.bound <= packing.value * (1 + 1e-6)
    weft.verify(forest_of(network, packing))
    return packing.value


@pytest.mark.parametrize(
    ("network", "most", "part"),
    [
        (dgx1(), 2, 7 / 8),
        (dgx1(), 8, 0.95),
        (machines(4, 4, nic=10 * GBIT, pcie=100 * GBIT), 2, 1.0),
        (machines(4, 4, nic=100 * GBIT, pcie=100 * GBIT), 16, 1.0),
        (two_tier(4, 8, oversubscription=4), 8, 0.98),
        (full_mesh(5), 5, 1.0),
    ],
    ids=["DGX-1, 2", "DGX-1, 8", "10 Gbit/s, 2", "100 Gbit/s, 16", "two-tier, 8", "full mesh, 5"],
)
def test_a_few_trees_reach_most_of_what_many_do(network: Network, most: int, part: float) -> None:
    # Half a percent may be given for shallow trees.
    assert pack(network).value / few_checked(network, most, 8.0) >= part * 0.994


@settings(deadline=None, max_examples=12)
@given(random_networks(most_workers=12), st.integers(1, 6))
def test_a_few_trees_are_never_worse_than_the_heaviest(network: Network, most: int) -> None:
    if len(network.active) > 1:
        assert few_checked(network, most, 0.6) <= heaviest(network, most) * 1.006


def test_enough_trees_lose_nothing() -> None:
    packing = few_trees(dgx1(), 1000)
    assert packing.loss == 0.0
    assert packing.quality > 0.99


def test_of_equally_fast_trees_the_shallow_ones_are_taken() -> None:
    # On one switch a chain from every worker is as fast as a star from every worker; with one root less, stars are not enough.
    packing = few_trees(two_tier(1, 6), 5)
    assert packing.loss == pytest.approx(0.0, abs=0.006)
    stars = [tree.weight for tree in packing.trees if tree_depth(tree.parents) == 1]
    assert sum(stars) / 2 > 0.25


def test_shallow_trees_come_first() -> None:
    packing = few_trees(two_tier(4, 2, oversubscription=2), 4, seconds=2.0)
    depths = [tree_depth(tree.parents) for tree in packing.trees if tree.kind == "reduce"]
    assert depths == sorted(depths)


def test_a_forest_of_few_trees_is_cut_into_as_many_pieces() -> None:
    schedule = forest(dgx1(), trees=5, seconds=2.0)
    assert len(schedule.chunk_weights) <= 5
    weft.verify(schedule)
    for make in (few_trees, forest):
        with pytest.raises(InputError, match="0 trees"):
            make(dgx1(), 0)


def test_broadcast_trees_alone_make_no_forest() -> None:
    with pytest.raises(InputError, match="broadcast trees alone"):
        forest_of(dgx1(), pack(dgx1(), "broadcast"))
