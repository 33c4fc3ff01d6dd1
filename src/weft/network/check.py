"""What can be wrong with a network, found all at once, each mistake with its place and a remedy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from typing import Protocol

Place = tuple[str | int, ...]
Found = tuple[Place, str]


class AnyLink(Protocol):
    @property
    def source(self) -> str: ...
    @property
    def destination(self) -> str: ...
    @property
    def bandwidth(self) -> float: ...
    @property
    def latency(self) -> float: ...


class AnyRegion(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def workers(self) -> Sequence[str]: ...


def mistakes_of(
    workers: Sequence[str],
    switches: Sequence[str],
    inactive: Sequence[str],
    links: Sequence[AnyLink],
    regions: Sequence[AnyRegion],
    link_places: Sequence[Place] | None = None,
) -> list[Found]:
    """Every mistake, with the place where it stands as a path of keys and positions."""
    places = link_places or [("links", i) for i in range(len(links))]
    found = list(_name_mistakes(workers, switches))
    found += _inactive_mistakes(workers, inactive)
    found += _link_mistakes({*workers, *switches}, links, places)
    found += _region_mistakes(workers, regions)
    if not found:
        found += _unreachable(workers, links)
    return found


def closest(name: str, names: Sequence[str]) -> str:
    """``; did you mean 'x'?`` where a known name is close, otherwise nothing."""
    match = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {match[0]!r}?" if match else ""


def _name_mistakes(workers: Sequence[str], switches: Sequence[str]) -> Iterator[Found]:
    if not workers:
        yield ("workers",), "there are none; list at least one worker, in rank order"
    first: dict[str, Place] = {}
    for kind, names in (("workers", workers), ("switches", switches)):
        for i, name in enumerate(names):
            place: Place = (kind, i)
            if not name or ">" in name or name != name.strip() or not name.isprintable():
                yield place, f"{name!r} cannot be a name; a name is not empty, printable, without '>' and outer spaces"
            elif name in first:
                yield (
                    place,
                    f"the name {name!r} is taken already by {first[name][0]}[{first[name][1]}]; every node needs its own",
                )
            first.setdefault(name, place)


def _inactive_mistakes(workers: Sequence[str], inactive: Sequence[str]) -> Iterator[Found]:
    known = set(workers)
    for i, name in enumerate(inactive):
        if name not in known:
            yield ("inactive", i), f"there is no worker {name!r}{closest(name, list(workers))}"
    if known and known <= set(inactive):
        yield ("inactive",), "every worker is inactive; leave at least one that takes part"


def _link_mistakes(nodes: set[str], links: Sequence[AnyLink], places: Sequence[Place]) -> Iterator[Found]:
    first: dict[tuple[str, str], Place] = {}
    missing: set[tuple[Place, str]] = set()
    for link, place in zip(links, places, strict=True):
        for end in (link.source, link.destination):
            if end not in nodes and (place, end) not in missing:
                missing.add((place, end))
                remedy = closest(end, sorted(nodes)) or "; add it to workers or switches"
                yield place, f"there is no node {end!r}{remedy}"
        if link.source == link.destination:
            yield place, f"the link joins {link.source!r} with itself; give two nodes"
        ends = (link.source, link.destination)
        if first.setdefault(ends, place) != place:
            yield (
                place,
                f"the link from {ends[0]!r} to {ends[1]!r} is given twice; join the two into one with both bandwidths",
            )
        if not (math.isfinite(link.bandwidth) and link.bandwidth > 0):
            yield place, f"a bandwidth of {link.bandwidth:g} bytes/s is not possible; it must be more than 0"
        if not (math.isfinite(link.latency) and link.latency >= 0):
            yield place, f"a latency of {link.latency:g} s is not possible; it must not be negative"


def _region_mistakes(workers: Sequence[str], regions: Sequence[AnyRegion]) -> Iterator[Found]:
    known = set(workers)
    names: dict[str, int] = {}
    for i, region in enumerate(regions):
        if region.name in names:
            yield ("regions", i), f"the name {region.name!r} is taken already by regions[{names[region.name]}]"
        names.setdefault(region.name, i)
        if not region.workers:
            yield ("regions", i), f"the region {region.name!r} has no worker; list some or remove it"
        for worker in region.workers:
            if worker not in known:
                yield ("regions", i), f"there is no worker {worker!r}{closest(worker, list(workers))}"
    sets = [frozenset(region.workers) for region in regions]
    for i, one in enumerate(sets):
        for j, other in enumerate(sets[:i]):
            if one == other and one:
                yield ("regions", i), f"it has the same workers as regions[{j}]; remove one of them"
            elif one & other and not (one < other or other < one):
                shared = min(one & other)
                yield (
                    ("regions", i),
                    f"it shares {shared!r} with regions[{j}], but neither lies inside the other; regions must nest",
                )


def _unreachable(workers: Sequence[str], links: Sequence[AnyLink]) -> Iterator[Found]:
    """Workers that cannot send to the first worker, or cannot be reached from it."""
    onward: dict[str, list[str]] = {}
    backward: dict[str, list[str]] = {}
    for link in links:
        onward.setdefault(link.source, []).append(link.destination)
        backward.setdefault(link.destination, []).append(link.source)
    reached, reaching = _closure(workers[0], onward), _closure(workers[0], backward)
    for i, name in enumerate(workers):
        if name not in reached and name not in reaching:
            yield ("workers", i), f"{name!r} is not connected to {workers[0]!r}; add links that join them"
        elif name not in reached:
            yield ("workers", i), f"{name!r} cannot be reached from {workers[0]!r}; add a link in that direction"
        elif name not in reaching:
            yield ("workers", i), f"{name!r} cannot reach {workers[0]!r}; add a link in that direction"


def _closure(start: str, neighbours: dict[str, list[str]]) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        for node in neighbours.get(waiting.pop(), ()):
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return seen
