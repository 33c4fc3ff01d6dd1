"""A slow and obvious simulator: the rules of a schedule, word by word, and max-min sharing from scratch at every event."""

from __future__ import annotations

import math

from weft import Network, Schedule, Transfer

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
    schedule: Schedule, network: Network, nbytes: float, *, channel: str = "stream", rtt_weights: bool = False
) -> float:
    """How long a schedule takes."""
    transfers = list(schedule)
    streams = channel == "stream"
    left = dict(enumerate(schedule.transfer_bytes(nbytes).tolist()))
    routes, latency, weight = [], [], []
    for t in transfers:
        found = network.routes([t.source], [t.destination])
        routes.append(list(zip(found.links.tolist(), found.share.tolist(), strict=True)))
        latency.append(float(found.latency[0]))
        weight.append(1 / latency[-1] if rtt_weights and latency[-1] > 0 else 1.0)
    data = [_data_of(transfers, i, schedule) for i in range(len(transfers))]
    before = [_before(transfers, i) if channel != "shared" else None for i in range(len(transfers))]
    capacity = [link.bandwidth for link in network.links]
    begun: dict[int, float] = {}
    sent: dict[int, float] = {}
    now = 0.0

    def arrives(i: int) -> float:
        """When the last byte arrives: the latency comes last on a stream, first elsewhere."""
        return sent.get(i, math.inf) + (latency[i] if streams else 0.0)

    while len(sent) < len(transfers):
        for i in range(len(transfers)):
            free = (
                before[i] is None or (sent.get(before[i] or 0, math.inf) if streams else arrives(before[i] or 0)) <= now
            )
            if i not in begun and free and all(arrives(j) <= now for j in data[i]):
                begun[i] = now
        flowing = {
            i: (routes[i], weight[i])
            for i in begun
            if i not in sent and now >= begun[i] + (0.0 if streams else latency[i]) - 1e-15
        }
        rates = fair_rates(flowing, capacity)
        ends = {i: now + left[i] / rates[i] if left[i] > 0 else now for i in flowing}
        starts = [begun[i] + latency[i] for i in begun if i not in sent and i not in flowing]
        landings = [arrives(i) for i in sent if arrives(i) > now]
        following = min([*ends.values(), *starts, *landings], default=math.inf)
        assert following < math.inf, "nothing moves"
        for i in flowing:
            left[i] = max(0.0, left[i] - rates[i] * (following - now))
        now = following
        for i, end in ends.items():
            if end <= now * (1 + 1e-13):
                sent[i] = now
    return max((arrives(i) for i in sent), default=0.0)


def _data_of(transfers: list[Transfer], i: int, schedule: Schedule) -> list[int]:
    """Rule 1: earlier transfers into the source for the same chunks, but not the other side of an exchange."""
    t = transfers[i]
    return [
        j
        for j, before in enumerate(transfers[:i])
        if before.destination == t.source
        and before.chunk < t.chunk + t.span
        and t.chunk < before.chunk + before.span
        and not (schedule.exchanges[i] and j == i - 1)
    ]


def _before(transfers: list[Transfer], i: int) -> int | None:
    """Rule 2: the transfer before on the same channel."""
    ends = (transfers[i].source, transfers[i].destination)
    return max((j for j in range(i) if (transfers[j].source, transfers[j].destination) == ends), default=None)
