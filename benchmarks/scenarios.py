"""The networks on which plans are measured: 8 workers unless said, hosts at 400 Mbit/s.

Each is made from ``two_tier`` by moving workers and changing rates, so that a rank's rack is not what its number suggests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.network import Network, two_tier

MBIT = 1e6 / 8
HOST = 400 * MBIT


@dataclass(frozen=True, slots=True)
class Scenario:
    """A network, and what is said of it."""

    letter: str
    about: str
    network: Network


def interleaved(network: Network, racks: int) -> Network:
    """The same with ranks dealt out to the racks in turn."""
    per_rack = len(network.workers) // racks
    order = [network.workers[rack * per_rack + i] for i in range(per_rack) for rack in range(racks)]
    return replace(network, workers=tuple(order))


def with_slow_host(network: Network, worker: str, bandwidth: float) -> Network:
    """The same with one worker's links at another rate."""
    return replace(
        network,
        links=tuple(
            replace(link, bandwidth=bandwidth) if worker in (link.source, link.destination) else link
            for link in network.links
        ),
    )


def without(network: Network, *workers: str) -> Network:
    """The same without some workers."""
    return replace(
        network,
        workers=tuple(name for name in network.workers if name not in workers),
        links=tuple(x for x in network.links if x.source not in workers and x.destination not in workers),
        regions=tuple(
            replace(region, workers=tuple(name for name in region.workers if name not in workers))
            for region in network.regions or ()
        ),
    )


def scenarios() -> list[Scenario]:
    two_racks = two_tier(2, 4, HOST, uplink=HOST)
    four_racks = two_tier(4, 2, HOST, uplink=100 * MBIT)
    seven = without(two_racks, two_racks.workers[-1])
    six = without(seven, two_racks.workers[3])
    return [
        Scenario("A", "2 racks x 4, ranks in rack order", two_racks),
        Scenario("B", "2 racks x 4, ranks interleaved", interleaved(two_racks, 2)),
        Scenario("C", "4 racks x 2, uplinks 100 Mbit/s, ranks interleaved", interleaved(four_racks, 4)),
        Scenario(
            "D", "2 racks x 4, one host at 100 Mbit/s", with_slow_host(two_racks, two_racks.workers[2], 100 * MBIT)
        ),
        Scenario("F6", "6 workers, 2 racks", six),
        Scenario("F7", "7 workers, 2 racks", seven),
    ]
