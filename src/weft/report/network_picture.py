"""The picture of a network: its nodes, regions and links, coloured by how busy they are.

Every cable is two thin lines, one for each direction, each to the right of the way it goes. The colour of a line is
the link's utilisation, its width the bandwidth. Regions are boxes behind their workers; inactive workers are hollow.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, ListedColormap, Normalize, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import PercentFormatter

from weft.errors import InputError
from weft.network import Network
from weft.report.canvas import (
    CAPTION_TEXT,
    FAINT,
    INK,
    TITLE_TEXT,
    canvas,
    caption_height,
    legend_width,
    wrapped,
    write,
    write_caption,
    write_legend,
)
from weft.report.curves import curve_lines
from weft.report.layout import layout_of
from weft.report.link_labels import LABEL_TEXT, busiest, link_labels
from weft.report.link_lines import inside_a_row, line_widths, link_curves
from weft.report.nodes import INACTIVE, WORKER, draw_nodes, draw_regions, looks_of, sample_of
from weft.report.shapes import Floats, Layout
from weft.units import format_bandwidth

_LEAST_WIDTH = 6.2
_EDGE = 0.15
_TITLE, _STRIP = 0.42, 0.5
_BAR_WIDTH = 1.8
_IDLE, _FAINTLY_IDLE = "#c3cad1", "#e2e7ec"
_MANY_LINKS = 300
_MOST_RATES = 4


def network_figure(network: Network, load: Mapping[str, float] | None = None, title: str | None = None) -> Figure:
    """A network; ``load`` is the utilisation of all used links, from 0 to 1, by name (``source>destination``)."""
    layout = layout_of(network)
    loads = None if load is None else _loads(network, load)
    legend = _legend(network)
    width = max(layout.width, _LEAST_WIDTH, legend_width(legend) + _BAR_WIDTH + 0.4) + 2 * _EDGE
    lines = wrapped(_caption(network, loads), width - 2 * _EDGE)
    below = caption_height(lines) + _STRIP
    figure, axes = canvas(width, layout.height + below + _TITLE)
    layout = layout.moved((width - layout.width) / 2, below)
    write(axes, (width / 2, layout.height + below + 0.2), title or network.name, TITLE_TEXT, bold=True)
    draw_regions(axes, layout)
    _draw_links(axes, network, layout, loads)
    draw_nodes(axes, layout, looks_of(network))
    write_legend(axes, _EDGE, below - _STRIP / 2, legend)
    if loads is not None:
        _draw_colour_bar(figure, width, below - _STRIP / 2)
    write_caption(axes, _EDGE, lines)
    return figure


def _loads(network: Network, load: Mapping[str, float]) -> Floats:
    """The load of every link, in the order of the network's links."""
    unknown = set(load).difference(link.name for link in network.links)
    if unknown:
        raise InputError(f"there is a load for {min(unknown)!r}, which is no link of {network.name!r}")
    return np.array([load.get(link.name, 0.0) for link in network.links], dtype=np.float64)


def _draw_links(axes: Axes, network: Network, layout: Layout, loads: Floats | None) -> None:
    """The links, busy ones over others, and the labels of the busiest."""
    bandwidths = network.graph.bandwidth
    if not len(bandwidths):
        return
    widths = line_widths(bandwidths, float(bandwidths.min()), len(bandwidths))
    if loads is not None:
        used = loads > 0
        widths[used] = line_widths(bandwidths[used], float(bandwidths.min()), int(used.sum()))
    curves = link_curves(network, layout, widths)
    arcs = inside_a_row(network, layout)
    order = np.arange(len(curves)) if loads is None else np.argsort(loads, kind="stable")
    for kind in (order[~arcs[order]], order[arcs[order]]):
        if len(kind):
            colours = _IDLE if loads is None else _colours(loads[kind], len(loads))
            axes.add_collection(curve_lines(curves[kind], colours, widths[kind], 2.0), autolim=False)
    for label in [] if loads is None else link_labels(network.graph, layout, curves, loads):
        write(axes, label.at, label.text, LABEL_TEXT, bold=True, on_paper=True)


def _scale() -> Colormap:
    """Perceptually uniform, from light to dark, without the shades that paper or ink would swallow."""
    return ListedColormap(matplotlib.colormaps["magma_r"](np.linspace(0.14, 0.87, 64)), name="load")


def _colours(loads: Floats, links: int) -> Floats:
    """The colours of links by their load; idle ones step back in a picture of many."""
    colours: Floats = np.asarray(_scale()(np.clip(loads, 0.0, 1.0)))
    colours[loads <= 0] = to_rgba(_FAINTLY_IDLE if links > _MANY_LINKS else _IDLE)
    return colours


def _draw_colour_bar(figure: Figure, width: float, height: float) -> None:
    tall = figure.get_size_inches()[1]
    place = ((width - _EDGE - _BAR_WIDTH - 0.2) / width, height / tall, _BAR_WIDTH / width, 0.09 / tall)
    axes = figure.add_axes(place)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0.0, 1.0), _scale()), cax=axes, orientation="horizontal",
        ticks=[0.0, 0.25, 0.5, 0.75, 1.0], format=PercentFormatter(1.0),
    )  # fmt: skip
    bar.ax.tick_params(labelsize=CAPTION_TEXT - 1, length=2, width=0.5, pad=1.5, colors=FAINT)
    bar.outline.set_linewidth(0.4)
    axes.set_title("utilisation", fontsize=CAPTION_TEXT, color=INK, pad=2.5)


def _legend(network: Network) -> list[tuple[Patch | Line2D, str]]:
    """What the widths of lines mean, and hollow workers where there are any."""
    rates = sorted({format_bandwidth(link.bandwidth): link.bandwidth for link in network.links}.values())
    texts = [format_bandwidth(rate) for rate in rates]
    if len(rates) > _MOST_RATES:
        rates, texts = [rates[0], rates[-1]], [f"slowest, {texts[0]}", f"fastest, {texts[-1]}"]
    entries: list[tuple[Patch | Line2D, str]] = []
    if rates:
        widths = line_widths(np.array(rates), rates[0], 1)
        lines = [Line2D([], [], color=FAINT, linewidth=float(width)) for width in widths]
        entries += zip(lines, texts, strict=True)
    if network.inactive:
        entries += [(sample_of(WORKER), "takes part"), (sample_of(INACTIVE), "inactive")]
    return entries


def _caption(network: Network, loads: Floats | None) -> str:
    workers, switches = len(network.workers), len(network.switches)
    text = f"{_counted(workers, 'worker')}, {_counted(switches, 'switch')}, {_counted(len(network.links), 'link')}. "
    if network.links:
        text += "Each cable is two lines, one for each direction; traffic keeps to the right. "
    if loads is not None:
        top = busiest(loads)
        share = f"{float(loads[top[0]]):.0%} of the bandwidth" if len(top) else ""
        if len(top) == 1:
            text += f"The busiest link is {network.links[top[0]].name}, with {share}."
        elif len(top):
            text += f"The busiest {len(top)} links, such as {network.links[top[0]].name}, carry {share} each."
    return text.strip()


def _counted(number: int, what: str) -> str:
    ending = "" if number == 1 else "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{ending}" if number else f"no {what}{ending}"
