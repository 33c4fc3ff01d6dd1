from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from strategies import networks
from weft import Link, Network
from weft.network import both_ways, dgx1, full_mesh, machines, two_tier
from weft.packing.arborescence import cheapest_tree
from weft.packing.cut_bound import cut_bound, mirror_of
from weft.packing.master import Formulation
from weft.packing.pack import pack
from weft.packing.pricing import tree_cost

FORMULATIONS: tuple[Formulation, ...] = ("pipelined", "overlapped", "separate")
rates = st.integers(1, 8).map(lambda rate: rate * 1e9)


@st.composite
def direct_networks(draw: st.DrawFn, most: int = 7, mirrored: bool = False) -> Network:
    """Workers on a ring of links with some more between them, each direction with a rate of its own, or none."""
    n = draw(st.integers(2, most))
    names = tuple(f"w{i}" for i in range(n))
    pairs = {(i, (i + 1) % n) for i in range(n)} | {((i + 1) % n, i) for i in range(n)}
    pairs |= draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=2 * n))
    kept = sorted(pair for pair in pairs if pair[0] != pair[1])
    if mirrored:
        links = both_ways(Link(names[i], names[j], draw(rates)) for i, j in kept if i < j)
    else:
        links = tuple(Link(names[i], names[j], draw(rates)) for i, j in kept)
    return Network(names, links, regions=(), name="direct")


@st.composite
def switched_networks(draw: st.DrawFn) -> Network:
    """Two to five workers and a few switches, each worker with one or two cables."""
    switches = tuple(f"s{i}" for i in range(draw(st.integers(1, 3))))
    workers = tuple(f"w{i}" for i in range(draw(st.integers(2, 5))))
    ends = [(a, b) for i, a in enumerate(switches) for b in switches[i + 1 :]]
    ends += [(w, s) for w in workers for s in draw(st.sets(st.sampled_from(switches), min_size=1, max_size=2))]
    return Network(workers, both_ways(Link(a, b, draw(rates)) for a, b in ends), switches, (), name="switched")


def multicommodity_time(network: Network, formulation: Formulation) -> float:
    """The same program with a flow of its own from the super-root to every worker, in every kind of tree."""
    graph, n = network.graph, len(network.workers)
    unit = float(graph.bandwidth.max())
    program = highspy.Highs()
    program.setOptionValue("output_flag", False)
    count = 0

    def variables(number: int, cost: float = 0.0) -> list[int]:
        nonlocal count
        for _ in range(number):
            program.addCol(cost, 0.0, highspy.kHighsInf, 0, np.array([], dtype=np.int32), np.array([]))
        count += number
        return list(range(count - number, count))

    def row(lower: float, upper: float, terms: dict[int, float]) -> None:
        columns, values = np.array(list(terms), dtype=np.int32), np.array(list(terms.values()))
        program.addRow(lower, upper, len(columns), columns, values)

    infinity = highspy.kHighsInf
    everything, stages = variables(n), 1 if formulation == "pipelined" else 2
    row(1.0, 1.0, dict.fromkeys(everything, 1.0))
    kinds = {"pipelined": "UB", "separate": "UL", "overlapped": "UBL"}[formulation]
    parts = {kind: everything if kind == "U" or formulation != "overlapped" else variables(n) for kind in kinds}
    if formulation == "overlapped":
        for v in range(n):
            row(0.0, 0.0, {everything[v]: 1.0, parts["B"][v]: -1.0, parts["L"][v]: -1.0})
    shares = {kind: variables(len(graph.source)) for kind in kinds}
    for kind in kinds:
        ends = (graph.source, graph.destination)
        tails, heads = ends if kind != "U" else ends[::-1]
        for switch in range(n, graph.nodes):
            terms = {shares[kind][e]: 1.0 for e in np.flatnonzero(heads == switch)}
            row(0.0, infinity, terms | {shares[kind][e]: -1.0 for e in np.flatnonzero(tails == switch)})
        for sink in range(n):
            flow, entering = variables(len(graph.source)), variables(n)
            for e, share in enumerate(shares[kind]):
                row(-infinity, 0.0, {flow[e]: 1.0, share: -1.0})
            for v in range(n):
                # All that has its root at v must reach the sink.
                row(0.0, 0.0, {entering[v]: 1.0, parts[kind][v]: -1.0})
            for node in range(graph.nodes):
                if node == sink:
                    continue
                terms = {flow[e]: 1.0 for e in np.flatnonzero(heads == node)}
                terms |= {flow[e]: -1.0 for e in np.flatnonzero(tails == node)}
                row(0.0, 0.0, terms | ({entering[node]: 1.0} if node < n else {}))
    lengths = variables(1 if formulation != "separate" else 2, 1.0)
    for e, rate in enumerate((graph.bandwidth / unit).tolist()):
        for stage in range(stages):
            used = {shares[kind][e]: -1.0 for kind in kinds if (kind == "L") == (stage == 1)}
            row(0.0, infinity, used | {lengths[stage % len(lengths)]: rate / (stages if len(lengths) == 1 else 1)})
    program.run()
    assert program.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(program.getInfo().objective_function_value) / unit


@settings(deadline=None, max_examples=25)
@given(st.one_of(direct_networks(5), switched_networks()), st.sampled_from(FORMULATIONS))
def test_cuts_and_flows_give_the_same_bound(network: Network, formulation: Formulation) -> None:
    found = cut_bound(network, formulation)
    assert found.tight
    assert found.seconds_per_byte == pytest.approx(multicommodity_time(network, formulation), rel=1e-6)
    assert found.root_parts.sum() == pytest.approx(1.0)


def grid(side: int) -> Network:
    names = [[f"w{i}-{j}" for j in range(side)] for i in range(side)]
    links = [Link(names[i][j], names[i + 1][j], 1e9) for i in range(side - 1) for j in range(side)]
    links += [Link(names[i][j], names[i][j + 1], 1e9) for i in range(side) for j in range(side - 1)]
    return Network(tuple(name for row in names for name in row), both_ways(links), (), (), name=f"grid {side}")


def uneven(network: Network) -> Network:
    draw = np.random.default_rng(1)
    return replace(
        network, links=tuple(replace(x, bandwidth=x.bandwidth * draw.uniform(0.9, 1.1)) for x in network.links)
    )


@pytest.mark.parametrize(
    "network",
    [dgx1(), uneven(dgx1()), grid(4), uneven(grid(3)), full_mesh(8), uneven(full_mesh(6))],
    ids=["DGX-1", "uneven DGX-1", "grid", "uneven grid", "full mesh", "uneven full mesh"],
)
def test_on_direct_links_packing_certificate_and_cuts_meet(network: Network) -> None:
    packing = pack(network, gap=1e-7, seconds=30)
    assert packing.value == pytest.approx(cut_bound(network).seconds_per_byte, rel=1e-6)
    assert packing.bound == pytest.approx(packing.value, rel=1e-6)


@settings(deadline=None, max_examples=25)
@given(direct_networks(), st.sampled_from(FORMULATIONS))
def test_random_direct_links_are_packed_as_well_as_cuts_allow(network: Network, formulation: Formulation) -> None:
    packing = pack(network, formulation, gap=1e-7)
    assert packing.value == pytest.approx(cut_bound(network, formulation).seconds_per_byte, rel=1e-5)
    assert packing.quality == pytest.approx(1.0, rel=1e-5)


@settings(deadline=None, max_examples=30)
@given(networks, st.sampled_from(FORMULATIONS))
def test_no_packing_beats_the_cut_bound_whatever_its_routes(network: Network, formulation: Formulation) -> None:
    packing = pack(network, formulation, seconds=0.5)
    bound = cut_bound(network, formulation, seconds=0.5).seconds_per_byte
    assert bound <= packing.value * (1 + 1e-6)
    assert packing.bound <= packing.value * (1 + 1e-6)


@settings(deadline=None, max_examples=30)
@given(st.one_of(direct_networks(mirrored=True), switched_networks()))
def test_with_equal_directions_counting_proves_the_cut_bound_for_any_schedule(network: Network) -> None:
    assert mirror_of(network.graph) is not None
    counted = weft.bound(network, 1.0, latency=False).seconds
    assert counted == pytest.approx(cut_bound(network).seconds_per_byte, rel=1e-6)


def test_with_unequal_directions_cuts_say_more_than_counting() -> None:
    network = uneven(grid(4))
    assert cut_bound(network).seconds_per_byte > weft.bound(network, 1.0, latency=False).seconds * 1.0005


def test_a_switch_does_not_copy() -> None:
    star = replace(two_tier(1, 6, bandwidth=1e9), regions=())
    assert cut_bound(star).seconds_per_byte == pytest.approx(2 * 5 / 6 / 1e9)
    hub = Network(
        star.workers + star.switches, star.links, (), (), inactive=star.switches, name="a relay in the middle"
    )
    assert cut_bound(hub).seconds_per_byte == pytest.approx(1 / 1e9)


def test_out_of_time_the_cut_bound_still_holds() -> None:
    network = machines(4, 8, "dgx1")
    early = cut_bound(network, seconds=0.0)
    late = cut_bound(network)
    assert not early.tight
    assert late.tight
    assert early.seconds_per_byte <= late.seconds_per_byte * (1 + 1e-9)
    assert cut_bound(network.with_active(["m0g0"])).seconds_per_byte == 0.0


def test_a_mirror_needs_the_same_rate_both_ways() -> None:
    network = dgx1()
    mirror = mirror_of(network.graph)
    assert mirror is not None
    assert [network.links[i] for i in mirror] == [link.reversed() for link in network.links]
    assert mirror_of(uneven(network).graph) is None


def _moves(state: tuple[int, ...], prices: list[list[int]]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Every transfer and every exchange: what it costs, and who knows what then."""
    n = len(state)
    for u in range(n):
        for v in range(n):
            if u != v:
                known = state[u] | state[v]
                yield prices[u][v], (*state[:v], known, *state[v + 1 :])
                if u < v:
                    after = list(state)
                    after[u] = after[v] = known
                    yield prices[u][v] + prices[v][u], tuple(after)


def cheapest_schedule(prices: list[list[int]]) -> int:
    """The cheapest way by which everyone learns what all know at the start, tree or not."""
    n = len(prices)
    start, goal = tuple(1 << i for i in range(n)), (2**n - 1,) * n
    costs = {start: 0}
    waiting = [(0, start)]
    while waiting:
        cost, state = heapq.heappop(waiting)
        if state == goal:
            return cost
        if cost == costs[state]:
            for price, after in _moves(state, prices):
                if cost + price < costs.get(after, 1 << 30):
                    costs[after] = cost + price
                    heapq.heappush(waiting, (cost + price, after))
    raise AssertionError("everyone can be told everything")


@settings(deadline=None, max_examples=10)
@given(st.lists(st.lists(st.integers(1, 5), min_size=4, max_size=4), min_size=4, max_size=4))
def test_no_schedule_of_four_workers_is_cheaper_than_two_trees(prices: list[list[int]]) -> None:
    costs = np.array(prices, float)
    np.fill_diagonal(costs, np.inf)
    back = np.ascontiguousarray(costs.T)
    trees = min(tree_cost(costs, cheapest_tree(costs, r)) + tree_cost(back, cheapest_tree(back, r)) for r in range(4))
    assert cheapest_schedule(prices) == trees
