"""Routing tables that send every packet along the route of the model.

Routes of the model depend on source and destination, routing tables of the kernel on the destination. So a node has one
table for what all sources agree on, and for every source that is sent elsewhere a table with its exceptions, which a
rule puts before the common one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.emulation.addresses import GATEWAY, address, device

if TYPE_CHECKING:
    from weft.network import Network

Hops = tuple[int, ...]
"""The next nodes on the way: one, or several over which traffic is spread."""

_FIRST_TABLE = 1000


@dataclass(frozen=True, slots=True)
class Tables:
    """What one node does with packets: by destination, and otherwise for some sources."""

    usual: Mapping[int, Hops]
    exceptions: Mapping[int, Mapping[int, Hops]]

    def lines(self, node: int) -> list[str]:
        """The tables as commands for ``ip -batch``."""
        lines = [_route(node, destination, hops, "") for destination, hops in self.usual.items()]
        for source, routes in self.exceptions.items():
            table = _FIRST_TABLE + source
            lines.append(f"rule add from {address(source)}/32 lookup {table} priority 1000")
            lines += [_route(node, destination, hops, f" table {table}") for destination, hops in routes.items()]
        return lines


def _route(node: int, destination: int, hops: Hops, table: str) -> str:
    start = f"route add {address(destination)}/32{table} src {address(node)}"
    if len(hops) == 1:
        return f"{start} via {GATEWAY} dev {device(hops[0])} onlink"
    return start + "".join(f" nexthop via {GATEWAY} dev {device(hop)} onlink" for hop in hops)


def tables_of(network: Network, pairs: Iterable[tuple[int, int]]) -> list[Tables]:
    """The tables of every node, for traffic between these pairs of nodes."""
    chosen = _next_hops(network, sorted(set(pairs)))
    return [_tables(node, chosen[node]) for node in range(len(network.nodes))]


Choices = dict[int, dict[int, Hops]]
"""By destination, then by source."""


def _next_hops(network: Network, pairs: list[tuple[int, int]]) -> list[Choices]:
    routes = network.routes([source for source, _ in pairs], [destination for _, destination in pairs])
    start, links = routes.start.tolist(), routes.links.tolist()
    link_source, link_destination = network.graph.source.tolist(), network.graph.destination.tolist()
    chosen: list[Choices] = [{} for _ in network.nodes]
    for i, (source, destination) in enumerate(pairs):
        for link in links[start[i] : start[i + 1]]:
            by_source = chosen[link_source[link]].setdefault(destination, {})
            by_source[source] = (*by_source.get(source, ()), link_destination[link])
    return chosen


def _tables(node: int, chosen: Choices) -> Tables:
    usual: dict[int, Hops] = {}
    exceptions: dict[int, dict[int, Hops]] = {}
    for destination, by_source in chosen.items():
        # A packet of the node's own may be looked up before it has a source address, where no rule matches.
        common = by_source.get(node) or Counter(by_source.values()).most_common(1)[0][0]
        usual[destination] = common
        for source, hops in by_source.items():
            if hops != common:
                exceptions.setdefault(source, {})[destination] = hops
    return Tables(usual, exceptions)
