"""Network: workers in rank order, switches, links, regions, and the route from every worker to every other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError, Mistake, NetworkError
from weft.network.check import mistakes_of
from weft.network.regions import RegionTree, inferred_regions, region_tree
from weft.network.routes import Graph, Routes, routes_between

Routing = Literal["pinned", "split"]


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a cable."""

    source: str
    destination: str
    bandwidth: float
    """bytes per second"""
    latency: float = 0.0
    """seconds"""

    @property
    def name(self) -> str:
        return f"{self.source}>{self.destination}"

    def reversed(self) -> Link:
        return Link(self.destination, self.source, self.bandwidth, self.latency)


@dataclass(frozen=True, slots=True)
class Region:
    """A set of workers behind one oversubscribed uplink: a rack, a pod. One region may lie inside another."""

    name: str
    workers: tuple[str, ...]


@dataclass(frozen=True)
class Network:
    """Workers in rank order, switches, links, regions; validated when made.

    ``regions=None`` infers the regions from the links. ``routing`` says what happens where several routes are equally
    short: ``pinned`` gives every pair of workers one of them by a fixed hash, ``split`` spreads the bytes evenly.
    """

    workers: tuple[str, ...]
    links: tuple[Link, ...]
    switches: tuple[str, ...] = ()
    regions: tuple[Region, ...] | None = None
    inactive: tuple[str, ...] = ()
    name: str = "network"
    routing: Routing = "pinned"
    regions_inferred: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.routing not in get_args(Routing):
            raise NetworkError([Mistake("routing", f"{self.routing!r} is unknown: use pinned or split")])
        found = mistakes_of(self.workers, self.switches, self.inactive, self.links, self.regions or ())
        if found:
            raise NetworkError([Mistake(_spelled(place), problem) for place, problem in found])
        if self.regions is None:
            groups = inferred_regions(self.graph, len(self.workers))
            regions = tuple(Region(name, tuple(self.workers[rank] for rank in ranks)) for name, ranks in groups)
            object.__setattr__(self, "regions", regions)
            object.__setattr__(self, "regions_inferred", True)

    @staticmethod
    def load(path: str | Path) -> Network:
        """The network of a file."""
        from weft.network.files import network_from_file

        return network_from_file(Path(path))

    @staticmethod
    def parse(text: str, name: str = "network") -> Network:
        """The network of a text in the form of a network file."""
        from weft.network.files import network_from_text

        return network_from_text(text, name)

    def to_yaml(self) -> str:
        """The network file; it parses back to an equal network."""
        from weft.network.files import yaml_of

        return yaml_of(self)

    def save(self, path: str | Path) -> None:
        """Write the network file, atomically."""
        from weft.files import write_atomically

        write_atomically(Path(path), self.to_yaml())

    @property
    def nodes(self) -> tuple[str, ...]:
        """Workers, then switches; the position of a node is its number in every array."""
        return self.workers + self.switches

    @cached_property
    def node_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.nodes)}

    @cached_property
    def graph(self) -> Graph:
        """The links as arrays."""
        return Graph(
            len(self.workers),
            len(self.nodes),
            np.array([self.node_numbers[link.source] for link in self.links], dtype=np.int32),
            np.array([self.node_numbers[link.destination] for link in self.links], dtype=np.int32),
            np.array([link.bandwidth for link in self.links], dtype=np.float64),
            np.array([link.latency for link in self.links], dtype=np.float64),
        )

    @cached_property
    def active(self) -> tuple[int, ...]:
        """The ranks that take part."""
        absent = set(self.inactive)
        return tuple(rank for rank, name in enumerate(self.workers) if name not in absent)

    @cached_property
    def region_tree(self) -> RegionTree:
        """The active workers as a tree of regions."""
        numbered = [
            (region.name, [self.node_numbers[name] for name in region.workers]) for region in self.regions or ()
        ]
        return region_tree(numbered, self.active)

    def routes(
        self, sources: Sequence[int] | NDArray[np.int32], destinations: Sequence[int] | NDArray[np.int32]
    ) -> Routes:
        """The routes of pairs of nodes, as arrays."""
        return routes_between(
            self.graph,
            np.ascontiguousarray(sources, dtype=np.int32),
            np.ascontiguousarray(destinations, dtype=np.int32),
            split=self.routing == "split",
        )

    def route(self, source: str, destination: str) -> tuple[Link, ...]:
        """The links from one node to another, in order of travel; of split routes, all links that carry a part."""
        numbers = [self.number(source), self.number(destination)]
        return tuple(self.links[i] for i in self.routes(numbers[:1], numbers[1:]).links)

    def number(self, name: str) -> int:
        """The number of a node; for a worker that is its rank."""
        if name not in self.node_numbers:
            raise InputError(f"there is no node {name!r} in {self.name!r}: its nodes are {_some(self.nodes)}")
        return self.node_numbers[name]

    def link_number(self, name: str) -> int:
        """The number of the link written as ``source>destination``."""
        for number, link in enumerate(self.links):
            if link.name == name:
                return number
        raise InputError(
            f"there is no link {name!r} in {self.name!r}: its links are {_some([x.name for x in self.links])}"
        )

    def with_active(self, active: Iterable[str]) -> Network:
        """The same network with only these workers taking part."""
        chosen = set(active)
        unknown = chosen.difference(self.workers)
        if unknown:
            raise InputError(
                f"there is no worker {min(unknown)!r} in {self.name!r}: its workers are {_some(self.workers)}"
            )
        return replace(self, inactive=tuple(name for name in self.workers if name not in chosen))


def both_ways(links: Iterable[Link]) -> tuple[Link, ...]:
    """Every link, each followed by the one in the other direction."""
    return tuple(direction for link in links for direction in (link, link.reversed()))


def _some(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > most else shown


def _spelled(place: tuple[str | int, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
