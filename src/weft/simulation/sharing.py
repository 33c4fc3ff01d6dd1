"""Max-min fair sharing of links by flows, recomputed only where something changed.

A flow on a route takes ``share`` of its rate on every link there. Rates are the max-min fair ones, weighted: the
narrowest link (the one whose capacity, divided by the weights of its flows, is least) fixes the rates of its flows;
they are taken off the other links; and so on. A change can move only the rates of flows that are joined with it by a
chain of shared links, so only that component is recomputed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled_in_place
from weft.simulation.heap import Heap, schedule_at, take_out

Bools = NDArray[np.bool_]
Bytes = NDArray[np.int8]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


class Flows(NamedTuple):
    """Flow ``f`` has the hops ``start[f]`` to ``start[f + 1]``; hop ``h`` is flow ``of[h]`` on link ``link[h]``."""

    start: Longs
    of: Ints
    link: Ints
    share: Floats
    weight: Floats
    joined: Bools
    remaining: Floats
    rate: Floats
    since: Floats
    """when ``remaining`` was true"""
    limiter: Ints
    """the link that fixes the rate now"""
    main_limiter: Ints
    """the link that fixed it for most of the time, by majority vote"""
    votes: Floats


class Links(NamedTuple):
    """The hops of the flows on link ``l`` are ``hops[start[l] : start[l] + count[l]]``; hop ``h`` stands at ``place[h]``."""

    capacity: Floats
    start: Longs
    count: Ints
    hops: Ints
    place: Ints


class Changes(NamedTuple):
    """Links whose sharing changed, and space for the work on their component."""

    dirty: Ints
    dirty_count: Longs
    dirty_mark: Bools
    link_stamp: Longs
    flow_stamp: Longs
    stamp: Longs
    links: Ints
    flows: Ints
    left: Floats
    weight: Floats
    users: Ints


def new_flows(start: Longs, link: Ints, share: Floats, weight: Floats) -> Flows:
    count = len(start) - 1
    of = np.repeat(np.arange(count, dtype=np.int32), np.diff(start))
    return Flows(
        start, of, link, share, weight, np.zeros(count, np.bool_), np.zeros(count), np.zeros(count), np.zeros(count),
        np.full(count, -1, np.int32), np.full(count, -1, np.int32), np.zeros(count),
    )  # fmt: skip


def new_links(capacity: Floats, flow_links: Ints) -> Links:
    start = np.zeros(len(capacity) + 1, dtype=np.int64)
    np.cumsum(np.bincount(flow_links, minlength=len(capacity)), out=start[1:])
    hops = np.zeros(len(flow_links), dtype=np.int32)
    return Links(capacity.copy(), start, np.zeros(len(capacity), np.int32), hops, np.zeros(len(flow_links), np.int32))


def new_changes(links: int, flows: int) -> Changes:
    return Changes(
        np.zeros(links, np.int32), np.zeros(1, np.int64), np.zeros(links, np.bool_), np.zeros(links, np.int64),
        np.zeros(flows, np.int64), np.zeros(1, np.int64), np.zeros(links, np.int32), np.zeros(flows, np.int32),
        np.zeros(links), np.zeros(links), np.zeros(links, np.int32),
    )  # fmt: skip


@compiled_in_place
def touch(changes: Changes, link: int) -> None:
    """Remember that a link's sharing changed."""
    if not changes.dirty_mark[link]:
        changes.dirty_mark[link] = True
        changes.dirty[changes.dirty_count[0]] = link
        changes.dirty_count[0] += 1


@compiled_in_place
def join(flows: Flows, links: Links, changes: Changes, flow: int, now: float) -> None:
    """Let a flow take part in the sharing of its links."""
    flows.joined[flow] = True
    flows.rate[flow] = 0.0
    flows.since[flow] = now
    for hop in range(flows.start[flow], flows.start[flow + 1]):
        link = flows.link[hop]
        at = links.start[link] + links.count[link]
        links.hops[at] = hop
        links.place[hop] = at
        links.count[link] += 1
        touch(changes, link)


@compiled_in_place
def leave(flows: Flows, links: Links, changes: Changes, flow: int) -> None:
    """Take a flow out of the sharing of its links."""
    flows.joined[flow] = False
    flows.rate[flow] = 0.0
    for hop in range(flows.start[flow], flows.start[flow + 1]):
        link = flows.link[hop]
        links.count[link] -= 1
        last = links.hops[links.start[link] + links.count[link]]
        links.hops[links.place[hop]] = last
        links.place[last] = links.place[hop]
        touch(changes, link)


@compiled_in_place
def settle(flows: Flows, flow: int, now: float) -> None:
    """Bring what remains of a flow up to date, and count the time for the link that held it back."""
    elapsed = now - flows.since[flow]
    if elapsed > 0:
        flows.remaining[flow] = max(0.0, flows.remaining[flow] - flows.rate[flow] * elapsed)
        if flows.limiter[flow] == flows.main_limiter[flow]:
            flows.votes[flow] += elapsed
        else:
            flows.votes[flow] -= elapsed
            if flows.votes[flow] < 0:
                flows.votes[flow] = -flows.votes[flow]
                flows.main_limiter[flow] = flows.limiter[flow]
    flows.since[flow] = now


@compiled_in_place
def _component(flows: Flows, links: Links, changes: Changes, first: int) -> tuple[int, int]:
    """Collect the links and flows that are joined with a link."""
    stamp = changes.stamp[0]
    changes.link_stamp[first] = stamp
    changes.links[0] = first
    found_links, found_flows = 1, 0
    looked = 0
    while looked < found_links:
        link = changes.links[looked]
        looked += 1
        for at in range(links.start[link], links.start[link] + links.count[link]):
            flow = flows.of[links.hops[at]]
            if changes.flow_stamp[flow] == stamp:
                continue
            changes.flow_stamp[flow] = stamp
            changes.flows[found_flows] = flow
            found_flows += 1
            for hop in range(flows.start[flow], flows.start[flow + 1]):
                other = flows.link[hop]
                if changes.link_stamp[other] != stamp:
                    changes.link_stamp[other] = stamp
                    changes.links[found_links] = other
                    found_links += 1
    return found_links, found_flows


@compiled_in_place
def _fill(flows: Flows, links: Links, changes: Changes, link_count: int, flow_count: int, rates: Floats) -> None:
    """Progressive filling of a component. A flow with a stamp below the current one has its rate."""
    stamp = changes.stamp[0]
    left, weight, users = changes.left, changes.weight, changes.users
    for i in range(link_count):
        link = changes.links[i]
        left[link] = links.capacity[link]
        weight[link] = 0.0
        users[link] = links.count[link]
        for at in range(links.start[link], links.start[link] + links.count[link]):
            hop = links.hops[at]
            weight[link] += flows.weight[flows.of[hop]] * flows.share[hop]
    alive = link_count
    unfixed = flow_count
    while unfixed > 0:
        narrowest, level = -1, np.inf
        i = 0
        while i < alive:
            link = changes.links[i]
            if users[link] == 0:
                alive -= 1
                changes.links[i] = changes.links[alive]
                changes.links[alive] = link
                continue
            here = left[link] / weight[link]
            # The lower number among equals, so that the order of the search does not show.
            if here < level or (here == level and link < narrowest):
                narrowest, level = link, here
            i += 1
        level = max(level, 0.0)
        for at in range(links.start[narrowest], links.start[narrowest] + links.count[narrowest]):
            flow = flows.of[links.hops[at]]
            if changes.flow_stamp[flow] != stamp:
                continue
            changes.flow_stamp[flow] = stamp - 1
            unfixed -= 1
            rates[flow] = level * flows.weight[flow]
            flows.limiter[flow] = narrowest
            for hop in range(flows.start[flow], flows.start[flow + 1]):
                other = flows.link[hop]
                left[other] -= rates[flow] * flows.share[hop]
                weight[other] -= flows.weight[flow] * flows.share[hop]
                users[other] -= 1


@compiled_in_place
def share_again(flows: Flows, links: Links, changes: Changes, heap: Heap, rates: Floats, now: float) -> None:
    """Recompute the rates wherever sharing changed, and when each flow there will end."""
    # Stamps go up by two: one for the components, one below it for flows whose rate is fixed.
    changes.stamp[0] += 2
    for k in range(changes.dirty_count[0]):
        first = changes.dirty[k]
        changes.dirty_mark[first] = False
        if links.count[first] == 0 or changes.link_stamp[first] == changes.stamp[0]:
            continue
        link_count, flow_count = _component(flows, links, changes, first)
        for i in range(flow_count):
            settle(flows, changes.flows[i], now)
        _fill(flows, links, changes, link_count, flow_count, rates)
        for i in range(flow_count):
            _reschedule(flows, heap, changes.flows[i], rates, now)
    changes.dirty_count[0] = 0


@compiled_in_place
def _reschedule(flows: Flows, heap: Heap, flow: int, rates: Floats, now: float) -> None:
    if rates[flow] == flows.rate[flow] and heap.place[flow] >= 0:
        return
    flows.rate[flow] = rates[flow]
    end = now + flows.remaining[flow] / rates[flow] if rates[flow] > 0 else np.inf
    if end < np.inf:
        schedule_at(heap, flow, end)
    else:
        take_out(heap, flow)
