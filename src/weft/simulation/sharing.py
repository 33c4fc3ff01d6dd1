"""Max-min fair sharing of links by flows, recomputed only where something changed.

A flow on a route takes ``share`` of its rate on every link there. Rates are the max-min fair ones, weighted: the
narrowest link (the one whose capacity, divided by the weights of its flows, is least) fixes the rates of its flows;
they are taken off the other links; and so on, level by level.

A change can move only the rates of flows that are joined with it by a chain of shared links, and only those at or above
the lowest level that it touches: a flow that leaves has no effect below its own level, and one that joins has none
below the level at which it can first fill a link. Only that part of that component is filled again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled_in_place, compiled_inside
from weft.heap import Heap, schedule_at, take_out

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
    """The hops of the flows on link ``l`` are ``hops[start[l]:start[l] + used[l]]``; hop ``h`` stands at ``place[h]``."""

    capacity: Floats
    start: Longs
    used: Ints
    hops: Ints
    place: Ints


class Changes(NamedTuple):
    """Links whose sharing changed, and space for the work on their component; its i-th link is ``links[i]``."""

    dirty: Ints
    dirty_count: Longs
    dirty_mark: Bools
    joined_mark: Bools
    """whether a flow has joined a changed link"""
    lowest: Floats
    """the level below which the flows that left have no effect"""
    link_stamp: Longs
    flow_stamp: Longs
    stamp: Longs
    links: Ints
    flows: Ints
    position: Ints
    """of a link among ``links``"""
    left: Floats
    """what flows whose rate is fixed leave of the i-th link"""
    weight: Floats
    """of the flows on it whose rate is not fixed, and below how many these are"""
    users: Ints
    level: Floats
    """what is left by weight: the rate that the i-th link can give to a flow of weight 1"""
    lowered: Ints
    lowered_stamp: Longs


def new_flows(start: Longs, link: Ints, share: Floats, weight: Floats) -> Flows:
    count = len(start) - 1
    return Flows(
        start=start,
        of=np.repeat(np.arange(count, dtype=np.int32), np.diff(start)),
        link=link,
        share=share,
        weight=weight,
        joined=np.zeros(count, np.bool_),
        remaining=np.zeros(count),
        rate=np.zeros(count),
        since=np.zeros(count),
        limiter=np.full(count, -1, np.int32),
        main_limiter=np.full(count, -1, np.int32),
        votes=np.zeros(count),
    )


def new_links(capacity: Floats, flow_links: Ints) -> Links:
    start = np.zeros(len(capacity) + 1, dtype=np.int64)
    np.cumsum(np.bincount(flow_links, minlength=len(capacity)), out=start[1:])
    hops = np.zeros(len(flow_links), dtype=np.int32)
    return Links(capacity.copy(), start, np.zeros(len(capacity), np.int32), hops, np.zeros(len(flow_links), np.int32))


def new_changes(links: int, flows: int) -> Changes:
    return Changes(
        dirty=np.zeros(links, np.int32),
        dirty_count=np.zeros(1, np.int64),
        dirty_mark=np.zeros(links, np.bool_),
        joined_mark=np.zeros(links, np.bool_),
        lowest=np.full(1, np.inf),
        link_stamp=np.zeros(links, np.int64),
        flow_stamp=np.zeros(flows, np.int64),
        stamp=np.zeros(1, np.int64),
        links=np.zeros(links, np.int32),
        flows=np.zeros(flows, np.int32),
        position=np.zeros(links, np.int32),
        left=np.zeros(links),
        weight=np.zeros(links),
        users=np.zeros(links, np.int32),
        level=np.zeros(links),
        lowered=np.zeros(links, np.int32),
        lowered_stamp=np.zeros(links, np.int64),
    )


@compiled_inside
def touch(changes: Changes, link: int) -> None:
    """Remember that a link's sharing changed."""
    if not changes.dirty_mark[link]:
        changes.dirty_mark[link] = True
        changes.dirty[changes.dirty_count[0]] = link
        changes.dirty_count[0] += 1


@compiled_inside
def level_of(flows: Flows, flow: int) -> float:
    """A flow's rate by its weight; infinite as long as it has none."""
    return flows.rate[flow] / flows.weight[flow] if flows.limiter[flow] >= 0 else np.inf


@compiled_in_place
def recapacitate(links: Links, changes: Changes, link: int, capacity: float) -> None:
    """Change a link's capacity."""
    links.capacity[link] = capacity
    changes.lowest[0] = 0.0
    touch(changes, link)


@compiled_in_place
def join(flows: Flows, links: Links, changes: Changes, flow: int, now: float) -> None:
    """Let a flow take part in the sharing of its links."""
    flows.joined[flow] = True
    flows.rate[flow] = 0.0
    flows.limiter[flow] = -1
    flows.since[flow] = now
    for hop in range(flows.start[flow], flows.start[flow + 1]):
        link = flows.link[hop]
        at = links.start[link] + links.used[link]
        links.hops[at] = hop
        links.place[hop] = at
        links.used[link] += 1
        changes.joined_mark[link] = True
        touch(changes, link)


@compiled_in_place
def leave(flows: Flows, links: Links, changes: Changes, flow: int) -> None:
    """Take a flow out of the sharing of its links."""
    flows.joined[flow] = False
    changes.lowest[0] = min(changes.lowest[0], level_of(flows, flow))
    flows.rate[flow] = 0.0
    for hop in range(flows.start[flow], flows.start[flow + 1]):
        link = flows.link[hop]
        links.used[link] -= 1
        last = links.hops[links.start[link] + links.used[link]]
        links.hops[links.place[hop]] = last
        links.place[last] = links.place[hop]
        touch(changes, link)


@compiled_inside
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


@compiled_inside
def _first_full(flows: Flows, links: Links, link: int) -> float:
    """A level below which a link cannot fill up, given what its flows had; close to where it does."""
    level = 0.0
    for _ in range(4):
        taken, weight = 0.0, 0.0
        for at in range(links.start[link], links.start[link] + links.used[link]):
            hop = links.hops[at]
            flow = flows.of[hop]
            if level_of(flows, flow) < level:
                taken += flows.rate[flow] * flows.share[hop]
            else:
                weight += flows.weight[flow] * flows.share[hop]
        higher = (links.capacity[link] - taken) / weight if weight > 0 else level
        if higher <= level:
            break
        level = higher
    return level


@compiled_inside
def _component(flows: Flows, links: Links, changes: Changes, first: int, lowest: float) -> tuple[int, int]:
    """Collect the links and flows that are joined with a link by flows at or above a level."""
    stamp = changes.stamp[0]
    changes.link_stamp[first] = stamp
    changes.links[0] = first
    found_links, found_flows = 1, 0
    looked = 0
    while looked < found_links:
        link = changes.links[looked]
        looked += 1
        for at in range(links.start[link], links.start[link] + links.used[link]):
            flow = flows.of[links.hops[at]]
            if changes.flow_stamp[flow] == stamp or level_of(flows, flow) < lowest:
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


@compiled_inside
def _fill(flows: Flows, links: Links, changes: Changes, link_count: int, flow_count: int, rates: Floats) -> None:
    """Progressive filling of a component. A flow that does not have the current stamp has its rate already."""
    stamp = changes.stamp[0]
    left, weight, users, level = changes.left, changes.weight, changes.users, changes.level
    for i in range(link_count):
        link = changes.links[i]
        changes.position[link] = i
        changes.lowered_stamp[i] = 0
        left[i], weight[i], users[i] = links.capacity[link], 0.0, 0
        for at in range(links.start[link], links.start[link] + links.used[link]):
            hop = links.hops[at]
            flow = flows.of[hop]
            if changes.flow_stamp[flow] == stamp:
                weight[i] += flows.weight[flow] * flows.share[hop]
                users[i] += 1
            else:
                left[i] -= flows.rate[flow] * flows.share[hop]
        level[i] = max(left[i], 0.0) / weight[i] if users[i] > 0 else np.inf
    unfixed, turn = flow_count, 0
    while unfixed > 0:
        turn += 1
        narrowest = 0
        for i in range(1, link_count):
            if level[i] < level[narrowest]:
                narrowest = i
        link, lowest, lowered = changes.links[narrowest], level[narrowest], 0
        for at in range(links.start[link], links.start[link] + links.used[link]):
            flow = flows.of[links.hops[at]]
            if changes.flow_stamp[flow] != stamp:
                continue
            changes.flow_stamp[flow] = 0
            unfixed -= 1
            rates[flow] = lowest * flows.weight[flow]
            flows.limiter[flow] = link
            for hop in range(flows.start[flow], flows.start[flow + 1]):
                i = changes.position[flows.link[hop]]
                left[i] -= rates[flow] * flows.share[hop]
                weight[i] -= flows.weight[flow] * flows.share[hop]
                users[i] -= 1
                if changes.lowered_stamp[i] != turn:
                    changes.lowered_stamp[i] = turn
                    changes.lowered[lowered] = i
                    lowered += 1
        for k in range(lowered):
            i = changes.lowered[k]
            level[i] = max(left[i], 0.0) / weight[i] if users[i] > 0 else np.inf


@compiled_in_place
def share_again(flows: Flows, links: Links, changes: Changes, heap: Heap, rates: Floats, now: float) -> None:
    """Recompute the rates wherever sharing changed, and when each flow there will end."""
    changes.stamp[0] += 1
    lowest = changes.lowest[0]
    for k in range(changes.dirty_count[0]):
        link = changes.dirty[k]
        changes.dirty_mark[link] = False
        if changes.joined_mark[link]:
            changes.joined_mark[link] = False
            lowest = min(lowest, _first_full(flows, links, link))
    # A hair below, because levels are rounded: a flow too many is filled again to what it had.
    lowest *= 1 - 1e-9
    for k in range(changes.dirty_count[0]):
        if changes.link_stamp[changes.dirty[k]] == changes.stamp[0]:
            continue
        link_count, flow_count = _component(flows, links, changes, changes.dirty[k], lowest)
        for i in range(flow_count):
            settle(flows, changes.flows[i], now)
        _fill(flows, links, changes, link_count, flow_count, rates)
        for i in range(flow_count):
            _reschedule(flows, heap, changes.flows[i], rates, now)
    changes.dirty_count[0] = 0
    changes.lowest[0] = np.inf


@compiled_inside
def _reschedule(flows: Flows, heap: Heap, flow: int, rates: Floats, now: float) -> None:
    # A rate that differs only by rounding is the same one.
    if abs(rates[flow] - flows.rate[flow]) <= 1e-14 * flows.rate[flow] and heap.place[flow] >= 0:
        return
    flows.rate[flow] = rates[flow]
    end = now + flows.remaining[flow] / rates[flow] if rates[flow] > 0 else np.inf
    if end < np.inf:
        schedule_at(heap, flow, end)
    else:
        take_out(heap, flow)
