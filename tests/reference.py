"""A slow and obvious simulator: the rules of a schedule, word by word, and max-min sharing from scratch at every event."""

from __future__ import annotations

import math

from weft import Network, Schedule

Flow = tuple[list[tuple[int, float]], float]
"""Links with the share of the flow's rate on each, and the flow's weight."""


def fair_rates(flows: dict[int, Flow], capacity: list[float]) -> dict[int, float]:
    """Max-min fair rates by progressive filling."""
    rates: dict[int, float] = {}
    left = dict(enumerate(capacity))
    while len(rates) < len(flows):
        waiting = {f: flow for f, flow in flows.items() if f not in rates}
        demand: dict[int, float] = {}
        for links, weight in waiting.values():
            for link, share in links:
                demand[link] = demand.get(link, 0.0) + weight * share
        narrowest = min(demand, key=lambda link: left[link] / demand[link])
        level = left[narrowest] / demand[narrowest]
        for f, (links, weight) in waiting.items():
            if any(link == narrowest for link, _ in links):
                rates[f] = level * weight
                for link, share in links:
                    left[link] = max(0.0, left[link] - rates[f] * share)
    return rates


def reference_seconds(
    schedule: Schedule, network: Network, nbytes: float, *, shared: bool = False, rtt_weights: bool = False
) -> float:
    """How long a schedule takes."""
    transfers = list(schedule)
    sizes = schedule.transfer_bytes(nbytes).tolist()
    routes, latency, weight = [], [], []
    for t in transfers:
        found = network.routes([t.source], [t.destination])
        routes.append(list(zip(found.links.tolist(), found.share.tolist(), strict=True)))
        latency.append(float(found.latency[0]))
        weight.append(1 / latency[-1] if rtt_weights and latency[-1] > 0 else 1.0)
    waits = [_waits_for(transfers, i, schedule, shared) for i in range(len(transfers))]
    capacity = [link.bandwidth for link in network.links]
    done: dict[int, float] = {}
    begun: dict[int, float] = {}
    left: dict[int, float] = {}
    now = 0.0
    while len(done) < len(transfers):
        for i in range(len(transfers)):
            if i not in begun and all(before in done for before in waits[i]):
                begun[i], left[i] = now, sizes[i]
        flowing = {i: (routes[i], weight[i]) for i in left if now >= begun[i] + latency[i] - 1e-15}
        rates = fair_rates(flowing, capacity)
        ends = {i: now + left[i] / rates[i] if left[i] > 0 else now for i in flowing}
        starts = [begun[i] + latency[i] for i in left if i not in flowing]
        following = min([*ends.values(), *starts], default=math.inf)
        assert following < math.inf, "nothing moves"
        for i in flowing:
            left[i] = max(0.0, left[i] - rates[i] * (following - now))
        now = following
        for i in [i for i, end in ends.items() if end <= now * (1 + 1e-13)]:
            done[i] = now
            del left[i]
    return max(done.values(), default=0.0)


def _waits_for(transfers: list, i: int, schedule: Schedule, shared: bool) -> list[int]:  # type: ignore[type-arg]
    """Rules 1 and 2: earlier transfers into the source for the same chunks, and earlier ones on the same channel."""
    t = transfers[i]
    found = []
    for j in range(i):
        before = transfers[j]
        overlaps = before.chunk < t.chunk + t.span and t.chunk < before.chunk + before.span
        partner = schedule.exchanges[i] and j == i - 1
        if (before.destination == t.source and overlaps and not partner) or (
            not shared and (before.source, before.destination) == (t.source, t.destination)
        ):
            found.append(j)
    return found
