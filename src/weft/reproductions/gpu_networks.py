"""The networks of GPUs that the tree-packing paper may mean: which GPUs share which links between machines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from weft.network import Link, Network, Region
from weft.network.builders import DGX1_NVLINKS
from weft.network.model import both_ways

GBIT = 1e9 / 8
INSIDE_GBIT = 100
"""PCIe, the paper's default."""
_UNLIMITED = 10_000 * GBIT

Between = Literal["GPU pair", "machine pair", "machine"]
"""What has a link of its own between machines: every two GPUs, every two machines, or every machine, to a switch."""


def gpu_mesh(
    machines: int, gpus: int, gbit: float, *, inside: float = INSIDE_GBIT, dgx1: bool = False, latency: float = 0.0
) -> Network:
    """A link between every two GPUs, of one rate inside machines and of another between; or those of a DGX-1 inside."""
    names = _names(machines, gpus)
    pairs = list(DGX1_NVLINKS) if dgx1 else list(combinations(range(gpus), 2))
    links = [Link(own[a], own[b], inside * GBIT, latency) for own in names for a, b in pairs]
    for one, other in combinations(names, 2):
        links += [Link(a, b, gbit * GBIT, latency) for a in one for b in other]
    return _network(f"{machines}x{gpus} GPUs, {gbit:g} Gbit/s between any two", names, links, ())


def shared_links(machines: int, gpus: int, gbit: float, between: Between) -> Network:
    """The same, if the GPUs of a machine share its links to other machines."""
    if between == "GPU pair":
        return gpu_mesh(machines, gpus, gbit)
    names = _names(machines, gpus)
    ports = tuple(f"port-{m}" for m in range(machines))
    links = [Link(a, b, INSIDE_GBIT * GBIT) for own in names for a, b in combinations(own, 2)]
    links += [Link(gpu, port, _UNLIMITED) for own, port in zip(names, ports, strict=True) for gpu in own]
    if between == "machine pair":
        links += [Link(a, b, gbit * GBIT) for a, b in combinations(ports, 2)]
        return _network(f"{machines}x{gpus} GPUs, {gbit:g} Gbit/s between machines", names, links, ports)
    links += [Link(port, "switch", gbit * GBIT) for port in ports]
    return _network(f"{machines}x{gpus} GPUs, {gbit:g} Gbit/s a machine", names, links, (*ports, "switch"))


def with_active(network: Network, active: Sequence[Sequence[int]]) -> Network:
    """Only these GPUs of each machine are active."""
    chosen = [f"m{machine}g{gpu}" for machine, gpus in enumerate(active) for gpu in gpus]
    return network.with_active(chosen)


def first_of_each(counts: Sequence[int]) -> list[range]:
    """(2, 1, 1, 0) as GPUs: the first two of the first machine, the first of the second ..."""
    return [range(count) for count in counts]


def _names(machines: int, gpus: int) -> list[list[str]]:
    return [[f"m{m}g{i}" for i in range(gpus)] for m in range(machines)]


def _network(name: str, names: list[list[str]], links: list[Link], switches: tuple[str, ...]) -> Network:
    regions = tuple(Region(f"machine {m}", tuple(own)) for m, own in enumerate(names))
    return Network(tuple(gpu for own in names for gpu in own), both_ways(links), switches, regions, name=name)
