"""Network files: YAML in and out.

A file is read as events, never as objects: every value is a text with a place until the network's own words say what
it means, so nothing in a file can run, expand, or turn ``no`` into false. All mistakes are reported at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from weft.errors import InputError, Mistake, NetworkError
from weft.network.check import Place, closest, mistakes_of
from weft.network.combine import built, prefixed
from weft.network.model import Link, Network, Region
from weft.network.places import Entry, Item, read_yaml
from weft.units import exact_bandwidth, exact_seconds, parse_bandwidth, parse_seconds

KEYS = ("name", "workers", "switches", "inactive", "links", "regions", "parts", "routing")
LINK_KEYS = ("between", "bandwidth", "latency", "one_way")


def network_from_file(path: Path) -> Network:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    return network_from_text(data, str(path))


def network_from_text(text: str | bytes, name: str) -> Network:
    reading = _Reading(name, read_yaml(text, name))
    return reading.network()


@dataclass(slots=True)
class _ParsedLink:
    link: Link
    item: Item


class _Reading:
    """One file being read: what was found so far, and every mistake."""

    def __init__(self, file: str, root: Item) -> None:
        self.file = file
        self.mistakes: list[Mistake] = []
        if not isinstance(root.value, dict):
            self.note(root, "a network file is a map with workers and links; see the README for an example")
            raise NetworkError(self.mistakes)
        self.root = root
        self.entries: dict[str, Entry] = root.value
        self.unknown_keys(self.entries, KEYS)

    def note(self, item: Item, problem: str) -> None:
        self.mistakes.append(Mistake(f"{self.file}:{item.line}:{item.column}", problem))

    def unknown_keys(self, entries: dict[str, Entry], known: tuple[str, ...]) -> None:
        for key, entry in entries.items():
            if key not in known:
                self.note(entry.key, f"there is no key {key!r}{closest(key, known)}; keys here are {', '.join(known)}")

    def text(self, item: Item, what: str) -> str:
        if isinstance(item.value, str):
            return item.value
        self.note(item, f"{what} is a text, not a {item.kind}")
        return ""

    def names(self, entries: dict[str, Entry], key: str) -> list[Item]:
        if key not in entries or entries[key].item.value == "":
            return []
        return self.items(entries[key].item, key)

    def items(self, item: Item, what: str) -> list[Item]:
        if isinstance(item.value, list):
            return item.value
        self.note(item, f"{what} is a list, such as [a0, a1], not a {item.kind}")
        return []

    def network(self) -> Network:
        title = self.text(self.entries["name"].item, "name") if "name" in self.entries else Path(self.file).stem
        routing = self.text(self.entries["routing"].item, "routing") if "routing" in self.entries else "pinned"
        if routing not in ("pinned", "split"):
            self.note(self.entries["routing"].item, f"{routing!r} is unknown: use pinned or split")
        parts = self.parts()
        lists = {key: self.names(self.entries, key) for key in ("workers", "switches", "inactive")}
        own = {key: [self.text(item, f"a name in {key}") for item in items] for key, items in lists.items()}
        links = self.links()
        regions, region_items = self.regions(parts)
        workers = [name for part in parts for name in part.workers] + own["workers"]
        switches = [name for part in parts for name in part.switches] + own["switches"]
        inactive = [name for part in parts for name in part.inactive] + own["inactive"]
        part_links = [link for part in parts for link in part.links]
        all_links = part_links + [parsed.link for parsed in links]
        if not workers:
            where = self.entries["workers"].item if "workers" in self.entries else self.root
            self.note(where, "there are no workers; list them in rank order, such as workers: [a0, a1]")
        # The structure is checked on what could be read, so that one bad number hides no missing node.
        readable = not self.mistakes or bool(workers)
        places: list[Place] = [("part",)] * len(part_links) + [("links", i) for i in range(len(links))]
        for place, problem in (
            mistakes_of(workers, switches, inactive, all_links, regions or [], places) if readable else []
        ):
            self.note(self.located(place, parts, lists, links, region_items), problem)
        if self.mistakes:
            raise NetworkError(_unique(self.mistakes))
        return Network(
            tuple(workers), tuple(all_links), tuple(switches), None if regions is None else tuple(regions),
            tuple(inactive), title, "split" if routing == "split" else "pinned",
        )  # fmt: skip

    def located(
        self,
        place: Place,
        parts: list[Network],
        lists: dict[str, list[Item]],
        links: list[_ParsedLink],
        regions: list[Item],
    ) -> Item:
        """Where in the file the thing stands that ``place`` names in the network."""
        key = str(place[0])
        if len(place) > 1 and isinstance(place[1], int):
            if key == "links":
                return links[place[1]].item
            if key == "regions":
                return regions[place[1]]
            before = sum(len(getattr(part, key)) for part in parts)
            if key in lists and 0 <= place[1] - before < len(lists[key]):
                return lists[key][place[1] - before]
        return self.entries[key].key if key in self.entries else self.root

    def parts(self) -> list[Network]:
        parts: list[Network] = []
        for item in self.names(self.entries, "parts"):
            if not isinstance(item.value, dict) or not {"name", "builder"} <= item.value.keys():
                self.note(item, "a part is a map with name, builder and the builder's arguments")
                continue
            entries = dict(item.value)
            name, builder = (self.text(entries.pop(key).item, key) for key in ("name", "builder"))
            try:
                parts.append(
                    prefixed(name, built(builder, {key: self.text(x.item, key) for key, x in entries.items()}))
                )
            except NetworkError as error:
                self.mistakes += [Mistake(f"{self.file}:{item.line}:{item.column}", str(m)) for m in error.mistakes]
            except InputError as error:
                self.note(item, str(error))
        return parts

    def links(self) -> list[_ParsedLink]:
        links: list[_ParsedLink] = []
        for item in self.names(self.entries, "links"):
            link = self.link(item)
            if link is not None:
                links.append(_ParsedLink(link, item))
                if not self.one_way(item):
                    links.append(_ParsedLink(link.reversed(), item))
        return links

    def link(self, item: Item) -> Link | None:
        if not isinstance(item.value, dict):
            self.note(item, "a link is a map, such as {between: [a0, tor-a], bandwidth: 10Gbit, latency: 5us}")
            return None
        before = len(self.mistakes)
        self.unknown_keys(item.value, LINK_KEYS)
        ends: list[str] = []
        if "between" in item.value:
            between = self.items(item.value["between"].item, "between")
            ends = [self.text(end, "a node") for end in between]
        if len(ends) != 2 and len(self.mistakes) == before:
            self.note(item, "a link is between two nodes: write between: [a0, tor-a]")
        if "bandwidth" not in item.value:
            self.note(item, "the link has no bandwidth; add one, such as bandwidth: 10Gbit")
        bandwidth, latency = 1.0, 0.0
        for key in ("bandwidth", "latency"):
            if key in item.value:
                value = item.value[key].item
                try:
                    number = (parse_bandwidth if key == "bandwidth" else parse_seconds)(self.text(value, key))
                except InputError as error:
                    self.note(value, str(error))
                    continue
                bandwidth, latency = (number, latency) if key == "bandwidth" else (bandwidth, number)
        return Link(ends[0], ends[1], bandwidth, latency) if len(ends) == 2 else None

    def one_way(self, item: Item) -> bool:
        assert isinstance(item.value, dict)
        if "one_way" not in item.value:
            return False
        value = item.value["one_way"].item
        if value.value not in ("true", "false"):
            self.note(value, "one_way is true or false")
        return value.value == "true"

    def regions(self, parts: list[Network]) -> tuple[list[Region] | None, list[Item]]:
        found = [region for part in parts for region in part.regions or ()]
        found += [Region(part.workers[0].split("/")[0], part.workers) for part in parts if len(part.workers) > 1]
        places = [self.root] * len(found)
        if "regions" not in self.entries:
            return (found or None), places
        for item in self.names(self.entries, "regions"):
            if not isinstance(item.value, dict) or item.value.keys() != {"name", "workers"}:
                self.note(item, "a region is a map, such as {name: rack a, workers: [a0, a1]}")
                continue
            name = self.text(item.value["name"].item, "name")
            workers = [self.text(x, "a worker") for x in self.items(item.value["workers"].item, "workers")]
            found.append(Region(name, tuple(workers)))
            places.append(item)
        return found, places


def _unique(mistakes: list[Mistake]) -> list[Mistake]:
    return list(dict.fromkeys(mistakes))


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./-]+)*")


def _quoted(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _listed(names: tuple[str, ...]) -> str:
    return "[" + ", ".join(_quoted(name) for name in names) + "]"


def yaml_of(network: Network) -> str:
    """The network file of a network; both directions of a cable on one line where they are alike."""
    lines = [f"name: {_quoted(network.name)}", f"workers: {_listed(network.workers)}"]
    if network.switches:
        lines.append(f"switches: {_listed(network.switches)}")
    if network.inactive:
        lines.append(f"inactive: {_listed(network.inactive)}")
    if network.routing != "pinned":
        lines.append(f"routing: {network.routing}")
    lines.append("links:" if network.links else "links: []")
    i = 0
    while i < len(network.links):
        link = network.links[i]
        paired = network.links[i + 1 : i + 2] == (link.reversed(),)
        ends = f"{_quoted(link.source)}, {_quoted(link.destination)}"
        rates = f"bandwidth: {exact_bandwidth(link.bandwidth)}, latency: {exact_seconds(link.latency)}"
        lines.append(f"  - {{between: [{ends}], {rates}{'' if paired else ', one_way: true'}}}")
        i += 2 if paired else 1
    regions = network.regions or ()
    lines.append("regions:" if regions else "regions: []")
    for region in regions:
        lines.append(f"  - {{name: {_quoted(region.name)}, workers: {_listed(region.workers)}}}")
    return "\n".join(lines) + "\n"
