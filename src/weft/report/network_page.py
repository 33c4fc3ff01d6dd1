"""Everything about a network on one page: the network, and a collective on it with loads, trees and timeline."""

from __future__ import annotations

from weft.bounds import bound
from weft.network import Network
from weft.report.network_picture import network_figure
from weft.report.page import Section, html_page
from weft.report.save import svg_text
from weft.report.timeline_picture import timeline_figure
from weft.report.trees_picture import trees_figure
from weft.schedule import Schedule
from weft.simulation import Simulation
from weft.units import format_bytes, format_seconds


def network_page(network: Network, result: Simulation | None = None, trees: Schedule | None = None) -> str:
    """The page as text; ``trees`` is what to draw trees of, if not the schedule itself."""
    if result is None:
        return html_page(network.name, [Section("Network", svg=svg_text(network_figure(network)))])
    name = result.schedule.name.replace("_", "-")
    least = bound(network, result.nbytes)
    facts = (
        ("time", format_seconds(result.seconds)),
        ("bound", f"{format_seconds(least.seconds)}: {least.why}"),
        ("transfers", f"{len(result.schedule)} of {len(result.schedule.chunk_weights)} chunks"),
        ("dependent steps", str(result.schedule.depth)),
        ("held up by", result.bottleneck),
    )
    sections = [
        Section(f"{name} of {format_bytes(result.nbytes)}", rows=facts),
        Section("Links by load", svg=svg_text(network_figure(network, result.utilisation))),
        Section("Who sends to whom", svg=svg_text(trees_figure(trees or result.schedule, network))),
        Section("Timeline", svg=svg_text(timeline_figure(result.trace))),
    ]
    return html_page(f"{name} on {network.name}", sections)
