"""A network as namespaces: what each of them needs, as data that can be written down and read back.

Planning happens outside, with the network at hand; what is planned is built inside, by a small process that knows
nothing of networks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from weft.emulation.addresses import GATEWAY, HARDWARE, INTERFACE, address, device
from weft.emulation.big_packets import LEGACY
from weft.emulation.shaping import MTU, Shape
from weft.emulation.tables import tables_of
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.network import Network

MOST_NODES = 512
MOST_CABLES = 4096
SMALLEST_QUEUE = 24_000
"""Bytes: sixteen frames, without which TCP does not get going."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """One node."""

    name: str
    address: str
    shapes: tuple[Shape, ...]
    lines: tuple[str, ...]
    """Commands for ``ip -batch`` inside the namespace, once its cables are there."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All namespaces of a network, and the cables between them as pairs of nodes."""

    namespaces: tuple[Namespace, ...]
    cables: tuple[tuple[int, int], ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(document: dict[str, Any]) -> Plan:
        namespaces = tuple(
            Namespace(x["name"], x["address"], tuple(Shape(**shape) for shape in x["shapes"]), tuple(x["lines"]))
            for x in document["namespaces"]
        )
        return Plan(namespaces, tuple((a, b) for a, b in document["cables"]))

    def cable_lines(self, paths: list[str]) -> list[str]:
        """Commands for ``ip -batch`` that lay every cable between the namespaces at these paths."""
        return [
            f"link add name {device(b)} address {HARDWARE} mtu {MTU} netns {paths[a]} type veth "
            f"peer name {device(a)} address {HARDWARE} mtu {MTU} netns {paths[b]}"
            for a, b in self.cables
        ]


def plan_of(network: Network, queue_seconds: float, further_pairs: Iterable[tuple[int, int]] = ()) -> Plan:
    """The namespaces of a network, with routes between all workers and between ``further_pairs`` of nodes."""
    ends = list(zip(network.graph.source.tolist(), network.graph.destination.tolist(), strict=True))
    cables = tuple(sorted({(min(end), max(end)) for end in ends}))
    _check_size(network, len(cables))
    workers = range(len(network.workers))
    pairs = {(a, b) for a in workers for b in workers if a != b}
    for a, b in further_pairs:
        pairs |= {(a, b), (b, a)}
    tables = tables_of(network, pairs)
    shapes: list[list[Shape]] = [[] for _ in network.nodes]
    peers: list[list[int]] = [[] for _ in network.nodes]
    for number, (link, (source, destination)) in enumerate(zip(network.links, ends, strict=True)):
        queue = max(SMALLEST_QUEUE, round(link.bandwidth * queue_seconds))
        shapes[source].append(Shape(number, device(destination), link.bandwidth, link.latency, queue))
    for a, b in cables:
        peers[a].append(b)
        peers[b].append(a)
    namespaces = []
    for node, name in enumerate(network.nodes):
        lines = [*_address_lines(node, node in workers), *_device_lines(peers[node], shapes[node])]
        lines += tables[node].lines(node)
        namespaces.append(Namespace(name, address(node), tuple(shapes[node]), tuple(lines)))
    return Plan(tuple(namespaces), cables)


def _check_size(network: Network, cables: int) -> None:
    for count, most, what in ((len(network.nodes), MOST_NODES, "nodes"), (cables, MOST_CABLES, "cables")):
        if count > most:
            raise InputError(
                f"{network.name!r} has {count} {what}: at most {most} can be emulated on one machine; simulate it instead"
            )


def _address_lines(node: int, worker: bool) -> list[str]:
    lines = ["link set lo up"]
    if not worker:
        return [*lines, f"addr add {address(node)}/32 dev lo"]
    # Libraries look for an interface that is up and running, which a veth is only while its other end is up, too.
    lines += [f"link add {INTERFACE} type veth peer name {INTERFACE}-end", f"link set {INTERFACE}-end up"]
    return [*lines, f"link set {INTERFACE} up", f"addr add {address(node)}/32 dev {INTERFACE}"]


def _device_lines(peers: list[int], shapes: list[Shape]) -> list[str]:
    packets = {shape.device: f" gso_max_size {min(shape.packet, LEGACY)}" for shape in shapes}
    lines = [f"link set {device(peer)}{packets.get(device(peer), '')} up" for peer in peers]
    return lines + [f"neigh add {GATEWAY} lladdr {HARDWARE} dev {device(peer)} nud permanent" for peer in peers]
