"""Networks that are common enough to have a name.

Bandwidths are bytes per second, latencies seconds. Every cable has the same rate in both directions. Racks, pods and
machines are named as regions even where their uplinks are not oversubscribed, because whoever builds them knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from weft.errors import InputError
from weft.network.model import Link, Network, Region, both_ways

GBIT = 1e9 / 8


def two_tier(
    racks: int = 2,
    workers_per_rack: int = 4,
    bandwidth: float = 10 * GBIT,
    oversubscription: float = 1.0,
    uplink: float | None = None,
    latency: float = 0.0,
    uplink_latency: float | None = None,
) -> Network:
    """Racks of workers under one core switch. ``uplink`` overrides what ``oversubscription`` implies."""
    _at_least(1, racks=racks, workers_per_rack=workers_per_rack)
    _positive(bandwidth=bandwidth, oversubscription=oversubscription)
    up = bandwidth * workers_per_rack / oversubscription if uplink is None else uplink
    links: list[Link] = []
    regions: list[Region] = []
    for rack in range(racks):
        label = _label(rack)
        names = tuple(f"{label}{i}" for i in range(workers_per_rack))
        links += [Link(name, f"tor-{label}", bandwidth, latency) for name in names]
        links.append(Link(f"tor-{label}", "core", up, latency if uplink_latency is None else uplink_latency))
        regions.append(Region(f"rack {label}", names))
    switches = [f"tor-{_label(rack)}" for rack in range(racks)] + ["core"]
    title = f"{racks} racks of {workers_per_rack}, {bandwidth * workers_per_rack / up:g}:1"
    return _network(title, regions, links, switches)


def spine_leaf(
    spines: int = 2,
    leaves: int = 4,
    workers_per_leaf: int = 4,
    bandwidth: float = 10 * GBIT,
    oversubscription: float = 1.0,
    uplink: float | None = None,
    latency: float = 0.0,
) -> Network:
    """Leaf switches, each joined to every spine. ``uplink`` is the rate of one leaf-spine cable."""
    _at_least(1, spines=spines, leaves=leaves, workers_per_leaf=workers_per_leaf)
    _positive(bandwidth=bandwidth, oversubscription=oversubscription)
    up = bandwidth * workers_per_leaf / oversubscription / spines if uplink is None else uplink
    links: list[Link] = []
    regions: list[Region] = []
    for leaf in range(leaves):
        label = _label(leaf)
        names = tuple(f"{label}{i}" for i in range(workers_per_leaf))
        links += [Link(name, f"leaf-{label}", bandwidth, latency) for name in names]
        links += [Link(f"leaf-{label}", f"spine-{spine}", up, latency) for spine in range(spines)]
        regions.append(Region(f"rack {label}", names))
    switches = [f"leaf-{_label(leaf)}" for leaf in range(leaves)] + [f"spine-{spine}" for spine in range(spines)]
    title = (
        f"{spines} spines, {leaves} leaves of {workers_per_leaf}, {bandwidth * workers_per_leaf / (up * spines):g}:1"
    )
    return _network(title, regions, links, switches)


def fat_tree(k: int = 4, bandwidth: float = 10 * GBIT, latency: float = 0.0) -> Network:
    """The fat tree of switches with ``k`` ports: k pods, k³/4 workers, full bisection."""
    if k < 2 or k % 2:
        raise InputError(f"a fat tree of {k}-port switches is not possible: k must be even and at least 2")
    half = k // 2
    links: list[Link] = []
    racks: list[Region] = []
    pods: list[Region] = []
    edges, aggregations = [], []
    for pod in range(k):
        inside: list[str] = []
        for rack in range(half):
            edge = f"edge-{pod}-{rack}"
            edges.append(edge)
            names = tuple(f"p{pod}r{rack}w{i}" for i in range(half))
            links += [Link(name, edge, bandwidth, latency) for name in names]
            links += [Link(edge, f"agg-{pod}-{i}", bandwidth, latency) for i in range(half)]
            racks.append(Region(f"rack {pod}-{rack}", names))
            inside += names
        for i in range(half):
            aggregations.append(f"agg-{pod}-{i}")
            links += [Link(f"agg-{pod}-{i}", f"core-{i}-{j}", bandwidth, latency) for j in range(half)]
        pods.append(Region(f"pod {pod}", tuple(inside)))
    cores = [f"core-{i}-{j}" for i in range(half) for j in range(half)]
    regions = [region for region in racks if len(region.workers) > 1] + pods
    workers = tuple(name for pod in pods for name in pod.workers)
    kept = tuple(region for region in regions if 1 < len(region.workers) < len(workers))
    return Network(
        workers, both_ways(links), tuple(edges + aggregations + cores), kept, name=f"fat tree of {k}-port switches"
    )


def bcube(ports: int = 4, levels: int = 1, bandwidth: float = 10 * GBIT, latency: float = 0.0) -> Network:
    """BCube: ports^(levels + 1) workers, each with one cable to a switch of every level."""
    _at_least(2, ports=ports)
    _at_least(0, levels=levels)
    digits = levels + 1
    count = ports**digits
    if count > 65536:
        raise InputError(
            f"a BCube of {ports}-port switches and {levels} levels has {count} workers: at most 65536 are allowed"
        )
    links: list[Link] = []
    switches: list[str] = []
    for level in range(digits):
        for rest in range(count // ports):
            switch = f"s{level}-{rest}"
            switches.append(switch)
            low, high = rest % ports**level, rest // ports**level
            for port in range(ports):
                worker = high * ports ** (level + 1) + port * ports**level + low
                links.append(Link(f"w{worker}", switch, bandwidth, latency))
    workers = tuple(f"w{i}" for i in range(count))
    return Network(workers, both_ways(links), tuple(switches), (), name=f"BCube, {ports} ports, {levels} levels")


def full_mesh(workers: int = 4, bandwidth: float = 10 * GBIT, latency: float = 0.0) -> Network:
    """A cable between every two workers."""
    _at_least(1, workers=workers)
    names = tuple(f"w{i}" for i in range(workers))
    links = [Link(a, b, bandwidth, latency) for a, b in combinations(names, 2)]
    return Network(names, both_ways(links), (), (), name=f"full mesh of {workers}")


DGX1_NVLINKS = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip
"""How many NVLinks join two GPUs of a DGX-1 with V100s: six at every GPU."""


def dgx1(nvlink: float = 25e9, latency: float = 0.0) -> Network:
    """The eight GPUs of a DGX-1 and the NVLinks between them; ``nvlink`` is the rate of one."""
    _positive(nvlink=nvlink)
    links = [Link(f"g{a}", f"g{b}", count * nvlink, latency) for (a, b), count in DGX1_NVLINKS.items()]
    return Network(tuple(f"g{i}" for i in range(8)), both_ways(links), (), (), name="DGX-1")


def machines(
    machines: int = 4,
    gpus: int = 4,
    inside: str = "pcie",
    nic: float = 25 * GBIT,
    pcie: float = 16e9,
    nvlink: float = 25e9,
    latency: float = 0.0,
    inside_latency: float = 0.0,
) -> Network:
    """Machines of GPUs behind one NIC each, joined by a switch.

    Inside, every GPU has a PCIe lane to the machine's PCIe switch, where the NIC is; ``inside`` adds nothing (``pcie``),
    an NVLink between every two GPUs (``nvlink``) or the NVLinks of a DGX-1 (``dgx1``, eight GPUs).
    """
    _at_least(1, machines=machines, gpus=gpus)
    if inside not in ("pcie", "nvlink", "dgx1"):
        raise InputError(f"machines with {inside!r} inside are unknown: use pcie, nvlink or dgx1")
    if inside == "dgx1" and gpus != 8:
        raise InputError(f"a DGX-1 has 8 GPUs, not {gpus}: set gpus to 8 or use nvlink")
    pairs = dict.fromkeys(combinations(range(gpus), 2), 1) if inside == "nvlink" else {}
    pairs = DGX1_NVLINKS if inside == "dgx1" else pairs
    links: list[Link] = []
    regions: list[Region] = []
    for m in range(machines):
        names = tuple(f"m{m}g{i}" for i in range(gpus))
        links += [Link(name, f"pcie-{m}", pcie, inside_latency) for name in names]
        links += [Link(names[a], names[b], count * nvlink, inside_latency) for (a, b), count in pairs.items()]
        links.append(Link(f"pcie-{m}", "switch", nic, latency))
        regions.append(Region(f"machine {m}", names))
    switches = [f"pcie-{m}" for m in range(machines)] + ["switch"]
    return _network(f"{machines} machines of {gpus} GPUs, {inside} inside", regions, links, switches)


BUILDERS: dict[str, Callable[..., Network]] = {
    "two_tier": two_tier,
    "spine_leaf": spine_leaf,
    "fat_tree": fat_tree,
    "bcube": bcube,
    "full_mesh": full_mesh,
    "dgx1": dgx1,
    "machines": machines,
}


def _network(title: str, regions: list[Region], links: list[Link], switches: list[str]) -> Network:
    workers = tuple(name for region in regions for name in region.workers)
    kept = tuple(region for region in regions if 1 < len(region.workers) < len(workers))
    return Network(workers, both_ways(links), tuple(switches), kept, name=title)


def _label(number: int) -> str:
    """a, b, ... z, aa, ab, ..."""
    label = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        label = chr(ord("a") + digit) + label
    return label


def _at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise InputError(f"{name} = {value} is not possible: it must be at least {least}")


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise InputError(f"{name} = {value:g} is not possible: it must be more than 0")
