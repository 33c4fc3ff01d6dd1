"""Parameter server: every worker sends its gradients to the servers, which send the sum back.

The servers are workers themselves, each for its part of the tensor. Two dependent steps, the fewest there can be; but
everything crosses every uplink, and with few servers their own links are the bottleneck.
"""

from __future__ import annotations

import numpy as np

from weft.collectives.trees import ABSENT, ROOT, equal_weights, tree_schedule
from weft.errors import InputError
from weft.network import Network
from weft.schedule import Schedule


def parameter_server(network: Network, servers: int | None = None) -> Schedule:
    """``servers`` of the workers are servers too, spread evenly over the ranks; by default all of them are."""
    active = network.active
    count = len(active) if servers is None else servers
    if not 1 <= count <= len(active):
        raise InputError(
            f"{count} servers are not possible: there must be 1 to {len(active)}, because servers are workers"
        )
    roots = [active[i * len(active) // count] for i in range(count)]
    parents = np.full((count, len(network.workers)), ABSENT, dtype=np.int32)
    parents[:, list(active)] = np.array(roots, dtype=np.int32)[:, None]
    parents[np.arange(count), roots] = ROOT
    return tree_schedule(parents, equal_weights(count), active, "parameter_server")
