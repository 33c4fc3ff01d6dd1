"""Names and numbers inside an emulation: every node is a network namespace with one address of its own.

Cables are veth pairs. Both ends of every cable have the same hardware address, and every route goes through the same
gateway, whose neighbour entry is fixed: nothing is ever resolved, and a link that exists in one direction only carries
nothing back.
"""

from __future__ import annotations

HARDWARE = "02:00:00:00:00:01"
GATEWAY = "169.254.0.1"
INTERFACE = "weft0"
"""The interface that has a worker's address. No traffic passes through it: routes decide which cable is taken."""


def address(node: int) -> str:
    """The one address of a node."""
    return f"10.77.{(node + 1) >> 8}.{(node + 1) & 255}"


def device(peer: int) -> str:
    """The interface of a cable at its near end, named after the node at its far end."""
    return f"to{peer}"
