"""Random networks, sizes and worker counts for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from weft import Link, Network
from weft.network import bcube, both_ways, dgx1, full_mesh, machines, spine_leaf, two_tier
from weft.network.model import Routing

GBIT = 1e9 / 8
bandwidths = st.sampled_from([0.1, 0.4, 1.0, 2.5, 10.0, 25.0]).map(lambda gbit: gbit * GBIT)
latencies = st.sampled_from([0.0, 1e-6, 5e-6, 20e-6])


@st.composite
def random_networks(draw: st.DrawFn, most_workers: int = 33, inactive: bool = True) -> Network:
    """Any connected network: a random tree of nodes, a few cables more, unequal rates, regions inferred."""
    count = draw(st.integers(1, most_workers))
    switches = tuple(f"s{i}" for i in range(draw(st.integers(0, 6))))
    workers = tuple(f"w{i}" for i in range(count))
    nodes = list(switches + workers) if switches else list(workers)
    links: dict[tuple[str, str], Link] = {}
    for i in range(1, len(nodes)):
        # Workers hang on switches where there are any, as in a cluster, and on each other where there are none.
        reach = min(i, len(switches)) if switches else i
        other = nodes[draw(st.integers(0, reach - 1))]
        links[nodes[i], other] = Link(nodes[i], other, draw(bandwidths), draw(latencies))
    for _ in range(draw(st.integers(0, 4))):
        a, b = draw(st.sampled_from(nodes)), draw(st.sampled_from(nodes))
        if a != b and (a, b) not in links and (b, a) not in links:
            links[a, b] = Link(a, b, draw(bandwidths), draw(latencies))
    absent = (
        draw(st.sets(st.sampled_from(workers), max_size=max(0, count - 1)))
        if inactive and draw(st.booleans())
        else set()
    )
    routing: Routing = draw(st.sampled_from(["pinned", "split"]))
    return Network(workers, both_ways(links.values()), switches, None, tuple(sorted(absent)), "random", routing)


@st.composite
def built_networks(draw: st.DrawFn) -> Network:
    """Networks of the builders, with a random subset of the workers active."""
    kind = draw(st.integers(0, 5))
    rate, delay = draw(bandwidths), draw(latencies)
    if kind == 0:
        network = two_tier(
            draw(st.integers(1, 5)),
            draw(st.integers(1, 6)),
            rate,
            draw(st.sampled_from([1.0, 2.0, 4.0])),
            latency=delay,
        )
    elif kind == 1:
        network = spine_leaf(
            draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 5)), rate, 2.0, latency=delay
        )
    elif kind == 2:
        network = full_mesh(draw(st.integers(1, 12)), rate, delay)
    elif kind == 3:
        network = bcube(draw(st.integers(2, 4)), draw(st.integers(0, 1)), rate, delay)
    elif kind == 4:
        network = machines(
            draw(st.integers(1, 4)),
            draw(st.integers(1, 5)),
            draw(st.sampled_from(["pcie", "nvlink"])),
            rate,
            latency=delay,
        )
    else:
        network = dgx1(latency=delay)
    active = draw(st.sets(st.sampled_from(network.workers), min_size=1))
    return network.with_active(active) if draw(st.booleans()) else network


networks = st.one_of(random_networks(), built_networks())
