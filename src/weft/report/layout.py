"""Positions of a network's nodes in a picture.

Networks with switches are drawn in layers: workers at the bottom, in rank order, grouped by their regions, and each
switch in the middle above what it joins. Networks of direct links are drawn as a circle.
"""

from __future__ import annotations

from weft.network import Network
from weft.report.circle import circular_layout
from weft.report.layered import layered_layout, row_layout
from weft.report.shapes import Layout, RegionShape

__all__ = ["Layout", "RegionShape", "layout_of", "workers_layout"]


def layout_of(network: Network) -> Layout:
    """The place of every node and of every region."""
    return layered_layout(network) if network.switches else circular_layout(network, 1.5)


def workers_layout(network: Network, above: float, below: float) -> Layout:
    """The same without switches: a row of workers with room above and below it, or a circle."""
    return row_layout(network, above, below) if network.switches else circular_layout(network, 0.95)
