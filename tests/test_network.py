from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft import InputError, Link, Network, NetworkError, Region
from weft.network import bcube, both_ways, combined, dgx1, fat_tree, full_mesh, machines, spine_leaf, two_tier
from weft.network.cuts import cut_capacity

GBIT = 1e9 / 8


def test_builders_have_the_right_numbers_of_workers_switches_and_links() -> None:
    expected = {
        two_tier(3, 5): (15, 4, 2 * (15 + 3)),
        spine_leaf(2, 4, 8): (32, 6, 2 * (32 + 8)),
        fat_tree(4): (16, 20, 2 * (16 + 16 + 16)),
        bcube(4, 1): (16, 8, 2 * 32),
        full_mesh(5): (5, 0, 20),
        dgx1(): (8, 0, 32),
        machines(4, 8, "dgx1"): (32, 5, 2 * (32 + 4 * 16 + 4)),
    }
    for network, (workers, switches, links) in expected.items():
        assert (len(network.workers), len(network.switches), len(network.links)) == (workers, switches, links), (
            network.name
        )


def test_a_dgx1_has_six_nvlinks_at_every_gpu() -> None:
    network = dgx1(nvlink=25e9)
    for gpu in network.workers:
        assert sum(link.bandwidth for link in network.links if link.source == gpu) == 6 * 25e9


def test_oversubscription_is_what_workers_can_send_by_what_the_uplink_carries() -> None:
    network = two_tier(2, 8, bandwidth=10 * GBIT, oversubscription=4)
    assert cut_capacity(network.graph, range(8)) == pytest.approx(8 * 10 * GBIT / 4)
    leaves = spine_leaf(3, 2, 6, bandwidth=10 * GBIT, oversubscription=2)
    assert cut_capacity(leaves.graph, range(6)) == pytest.approx(6 * 10 * GBIT / 2)


def test_regions_nest_from_racks_to_pods() -> None:
    tree = fat_tree(4).region_tree
    assert tree.levels == 2
    assert len(tree.regions) == 4
    assert [region.workers for region in tree.regions[1].regions] == [(4, 5), (6, 7)]
    assert len(tree.leaves()) == 8


@pytest.mark.parametrize(
    "network",
    [two_tier(3, 4, oversubscription=4), spine_leaf(2, 4, 8, oversubscription=2), machines(4, 4)],
    ids=lambda network: network.name,
)
def test_regions_are_inferred_where_none_are_named(network: Network) -> None:
    inferred = replace(network, regions=None)
    assert {region.workers for region in inferred.regions or ()} == {region.workers for region in network.regions or ()}
    assert inferred.regions_inferred


def test_nested_regions_are_inferred_too() -> None:
    links = []
    for pod in range(2):
        for rack in range(2):
            links += [Link(f"p{pod}r{rack}w{i}", f"tor{pod}{rack}", 10.0) for i in range(3)]
            links.append(Link(f"tor{pod}{rack}", f"pod{pod}", 15.0))
        links.append(Link(f"pod{pod}", "core", 15.0))
    workers = tuple(link.source for link in links if "w" in link.source)
    switches = ("tor00", "tor01", "tor10", "tor11", "pod0", "pod1", "core")
    tree = Network(workers, both_ways(links), switches).region_tree
    assert tree.levels == 2
    assert [region.workers for region in tree.regions] == [tuple(range(6)), tuple(range(6, 12))]
    assert [len(group) for group in tree.leaves()] == [3, 3, 3, 3]


@pytest.mark.parametrize(
    "network", [two_tier(3, 4), full_mesh(6), dgx1(), bcube(4, 1)], ids=lambda network: network.name
)
def test_no_region_is_inferred_where_nothing_is_oversubscribed(network: Network) -> None:
    assert replace(network, regions=None).regions == ()


def test_equal_routes_are_pinned_the_same_way_every_time_and_spread_over_the_spines() -> None:
    network = spine_leaf(4, 2, 8)
    used = {route[1].destination for i in range(8) for j in range(8) for route in [network.route(f"a{i}", f"b{j}")]}
    assert used == {"spine-0", "spine-1", "spine-2", "spine-3"}
    assert network.route("a0", "b0") == spine_leaf(4, 2, 8).route("a0", "b0")


def test_split_routes_use_all_spines_evenly() -> None:
    network = replace(spine_leaf(4, 2, 2), routing="split")
    routes = network.routes([0], [2])
    shares = {network.links[i].name: share for i, share in zip(routes.links, routes.share, strict=True)}
    assert shares["a0>leaf-a"] == 1.0
    assert shares["leaf-a>spine-3"] == 0.25
    assert shares["leaf-b>b0"] == 1.0


def test_routes_pass_through_workers_only_where_there_is_no_other_way() -> None:
    chain = Network(("a", "b", "c"), both_ways([Link("a", "b", 1.0), Link("b", "c", 1.0)]))
    assert [link.name for link in chain.route("a", "c")] == ["a>b", "b>c"]
    longer = Network(
        ("a", "b", "c"),
        both_ways(
            [
                Link("a", "b", 1.0),
                Link("b", "c", 1.0),
                *(Link(x, y, 1.0) for x, y in [("a", "s"), ("s", "t"), ("t", "c")]),
            ]
        ),
        ("s", "t"),
    )
    assert [link.name for link in longer.route("a", "c")] == ["a>s", "s>t", "t>c"]


def test_inactive_workers_stay_in_the_network_but_take_no_part() -> None:
    network = two_tier(2, 2).with_active(["a0", "b1"])
    assert network.active == (0, 3)
    assert network.inactive == ("a1", "b0")
    assert network.region_tree.regions == ()
    with pytest.raises(InputError, match="there is no worker 'z9'"):
        network.with_active(["z9"])


def test_networks_combine_into_one() -> None:
    links = both_ways([Link("left/core", "wan", 1.0), Link("right/core", "wan", 1.0)])
    network = combined({"left": two_tier(2, 2), "right": two_tier(1, 3)}, links, switches=["wan"])
    assert len(network.workers) == 7
    assert [region.workers for region in network.region_tree.regions] == [(0, 1, 2, 3), (4, 5, 6)]


def test_a_network_made_wrongly_names_every_mistake() -> None:
    with pytest.raises(NetworkError) as caught:
        Network(
            ("a", "b", "b"),
            (Link("a", "x", 1.0), Link("a", "b", -1.0), Link("b", "b", 1.0, latency=-2.0)),
            regions=(Region("r", ("a", "q")),),
            inactive=("nobody",),
        )
    text = str(caught.value)
    for part in (
        "no node 'x'",
        "-1 bytes/s",
        "with itself",
        "latency of -2",
        "'b' is taken",
        "no worker 'q'",
        "no worker 'nobody'",
    ):
        assert part in text
    assert len(caught.value.mistakes) == 7


def test_max_flow_finds_the_narrowest_cut() -> None:
    links = [Link("a", "s", 3.0), Link("s", "t", 2.0), Link("t", "b", 9.0), Link("a", "b", 1.0), Link("b", "a", 7.0)]
    network = Network(("a", "b"), tuple(links), ("s", "t"))
    assert cut_capacity(network.graph, [0], [1]) == pytest.approx(3.0)
    assert cut_capacity(network.graph, [1], [0]) == pytest.approx(7.0)


def test_the_region_tree_orders_members_by_rank() -> None:
    links = both_ways([Link(f"w{i}", "s", 1.0) for i in range(6)])
    network = Network(
        tuple(f"w{i}" for i in range(6)), links, ("s",), (Region("late", ("w4", "w2")), Region("early", ("w0", "w5")))
    )
    tree = network.region_tree
    assert [region.name for region in tree.regions] == ["early", "late"]
    assert tree.ranks == (1, 3)
    assert np.all(np.diff(tree.workers) > 0)
