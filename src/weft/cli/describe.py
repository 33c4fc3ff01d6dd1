"""Networks and timelines in words, narrow enough for a small terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weft.units import format_bandwidth, format_seconds

if TYPE_CHECKING:
    from weft.network import Network, RegionTree
    from weft.trace import Trace


def network_facts(network: Network) -> dict[str, Any]:
    """The network as JSON."""
    return {
        "name": network.name,
        "workers": list(network.workers),
        "switches": list(network.switches),
        "inactive": list(network.inactive),
        "routing": network.routing,
        "links": [
            {"source": x.source, "destination": x.destination, "bandwidth": x.bandwidth, "latency": x.latency}
            for x in network.links
        ],
        "regions": [{"name": region.name, "workers": list(region.workers)} for region in network.regions or ()],
        "regions_inferred": network.regions_inferred,
    }


def network_lines(network: Network) -> Iterator[str]:
    """A few lines: what there is, of which rates, and the regions with how oversubscribed each is."""
    yield network.name
    inactive = f", {len(network.inactive)} of them inactive" if network.inactive else ""
    counts = f"{len(network.workers)} workers{inactive}, {len(network.switches)} switches, {len(network.links)} links"
    yield f"{counts}, {network.routing} routes"
    kinds = Counter((link.bandwidth, link.latency) for link in network.links)
    for (bandwidth, latency), count in kinds.most_common(6):
        yield f"  {count:5d} links of {format_bandwidth(bandwidth)}, {format_seconds(latency)}"
    if len(kinds) > 6:
        yield f"        ... and {len(kinds) - 6} more kinds of links"
    tree = network.region_tree
    if tree.regions:
        yield "regions (inferred):" if network.regions_inferred else "regions:"
        yield from _region_lines(network, tree, 1)
    else:
        yield "no regions"


def _region_lines(network: Network, tree: RegionTree, depth: int, most: int = 24) -> Iterator[str]:
    from weft.network.cuts import cut_capacity

    for region in tree.regions[:most]:
        out = cut_capacity(network.graph, region.workers)
        own = sum(link.bandwidth for link in network.links if network.node_numbers[link.source] in set(region.workers))
        names = [network.workers[rank] for rank in region.workers]
        shown = " ".join(names[:8]) + (f" ... ({len(names)})" if len(names) > 8 else "")
        yield f"{'  ' * depth}{region.name}: {shown}; out {format_bandwidth(out)}, {own / out:.3g}:1"
        yield from _region_lines(network, region, depth + 1)
    if len(tree.regions) > most:
        yield f"{'  ' * depth}... and {len(tree.regions) - most} more"


MARKS = {"copy": "=", "forward": ">", "backward": "<", "bucket": "~", "update": "u"}
MEANINGS = {
    "+": "sends to be added", "=": "sends copies", ">": "forward", "<": "backward", "~": "buckets on their way", "u": "update",
}  # fmt: skip


def timeline_lines(trace: Trace, width: int, most: int = 32) -> Iterator[str]:
    """One line per worker, with a mark for what it does at every moment, and # where it does several things."""
    workers = list(dict.fromkeys(span.worker for span in sorted(trace.spans, key=lambda span: span.worker)))
    whole = trace.seconds or 1.0
    label = max((len(worker) for worker in workers), default=0)
    columns = max(10, width - label - 3)
    for worker in workers[:most]:
        cells = [" "] * columns
        for span in trace.spans:
            if span.worker == worker:
                mark = MARKS.get(span.category, "+")
                first = min(columns - 1, int(span.start / whole * columns))
                last = max(first + 1, min(columns, round(span.end / whole * columns)))
                for i in range(first, last):
                    cells[i] = mark if cells[i] in (" ", mark) else "#"
        yield f"{worker.rjust(label)} |{''.join(cells)}|"
    if workers:
        yield f"{' ' * label}  0{format_seconds(trace.seconds).rjust(columns - 1)}"
        found = {MARKS.get(span.category, "+") for span in trace.spans}
        yield "   ".join([*(f"{mark} {MEANINGS[mark]}" for mark in MEANINGS if mark in found), "# several of these"])
    if len(workers) > most:
        yield f"... and {len(workers) - most} more workers"
