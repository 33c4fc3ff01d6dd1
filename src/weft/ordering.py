"""Pipelines in the order in which their transfers can really happen.

``Schedule.segmented`` orders segments by the number of steps before them, which is right where all steps take equally long.
Trees with different weights and depths are not like that: a channel then waits for a transfer that is listed first while
others are ready. Here the transfers are run as if every channel had a rate of its own, and every channel sends, of what is
ready, whatever has the longest way still to go, later segments counting as less urgent. When each began is its place in the
list. The list is a valid order, because nothing begins before what it needs has arrived.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled, compiled_inside, wide
from weft.dependencies import entries
from weft.heap import Heap, empty_heap, schedule_at, take_out
from weft.network import Network
from weft.schedule import Schedule

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


class _Pipeline(NamedTuple):
    """Item ``t * segments + j`` is segment ``j`` of transfer ``t``; a channel's ready items form a heap."""

    segments: int
    channel: Ints
    duration: Floats
    latency: Floats
    urgency: Floats
    step: float
    """how much less urgent each later segment is"""
    after_start: Longs
    after: Longs
    missing: Ints
    ready_start: Longs
    ready: Longs
    ready_count: Longs
    flying_first: Longs
    flying_last: Longs
    behind: Longs
    lands: Floats


def pipelined(schedule: Schedule, network: Network, nbytes: float, seconds: float, segments: int) -> Schedule:
    """The schedule in segments. ``seconds`` is how long all of it should take, which sets the channels' rates."""
    single = schedule.expanded()
    if not len(single) or segments < 1:
        return single
    key = single.source.astype(np.int64) * single.workers + single.destination
    pairs, channel = np.unique(key, return_inverse=True)
    routes = network.routes(pairs // single.workers, pairs % single.workers)
    sizes = single.transfer_bytes(nbytes)
    volume = np.bincount(channel, weights=sizes, minlength=len(pairs))
    busy = seconds / np.maximum(volume, 1e-300)
    duration = sizes * busy[channel] / segments
    latency = routes.latency[channel]
    after_start, after, waits = _successors(single)
    tails = _tails(after_start, after, duration + latency)
    counts = np.bincount(channel, minlength=len(pairs)) * segments
    ready_start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    pipeline = _Pipeline(
        segments=segments,
        channel=channel.astype(np.int32),
        duration=duration,
        latency=latency,
        urgency=tails,
        step=seconds / segments,
        after_start=after_start,
        after=after,
        missing=np.repeat(waits, segments).astype(np.int32),
        ready_start=ready_start,
        ready=np.zeros(ready_start[-1], dtype=np.int64),
        ready_count=np.zeros(len(pairs), dtype=np.int64),
        flying_first=np.full(len(pairs), -1, dtype=np.int64),
        flying_last=np.full(len(pairs), -1, dtype=np.int64),
        behind=np.full(len(single) * segments, -1, dtype=np.int64),
        lands=np.zeros(len(single) * segments),
    )
    order = _greedy_order(pipeline, empty_heap(2 * len(pairs)), len(pairs))
    assert len(order) == len(single) * segments
    which, segment = np.divmod(order, segments)
    return Schedule.of(
        single.workers, np.repeat(single.chunk_weights, segments), single.source[which], single.destination[which],
        single.chunk[which] * segments + segment, single.op[which], None, single.participants, single.name,
    )  # fmt: skip


def _successors(schedule: Schedule) -> tuple[Longs, Longs, Longs]:
    """Which transfers wait for each one's arrival, and how many each waits for."""
    parts = entries(schedule)
    needs = parts.needs.astype(np.int64)
    waiting = np.repeat(np.arange(len(schedule)), needs)
    offset = np.arange(len(waiting)) - np.repeat(np.cumsum(needs) - needs, needs)
    awaited = parts.writes[np.repeat(parts.write_start[parts.read], needs) + offset]
    order = np.argsort(awaited, kind="stable")
    start = np.zeros(len(schedule) + 1, dtype=np.int64)
    np.cumsum(np.bincount(awaited, minlength=len(schedule)), out=start[1:])
    return start, waiting[order], needs


@compiled
def _tails(after_start: Longs, after: Longs, own: Floats) -> Floats:
    """How long the longest chain is that begins with each transfer."""
    tails = np.zeros(len(own))
    for t in range(len(own) - 1, -1, -1):
        longest = 0.0
        for i in range(after_start[t], after_start[t + 1]):
            longest = max(longest, tails[after[i]])
        tails[t] = own[t] + longest
    return tails


@compiled_inside
def _rank(p: _Pipeline, item: int) -> float:
    """Small is urgent."""
    rank: float = (item % p.segments) * p.step - p.urgency[item // p.segments]
    return rank


@compiled_inside
def _make_ready(p: _Pipeline, item: int) -> None:
    channel = p.channel[item // p.segments]
    first, at = p.ready_start[channel], p.ready_count[channel]
    p.ready_count[channel] += 1
    rank = _rank(p, item)
    while at > 0:
        above = (at - 1) >> 1
        if _rank(p, p.ready[first + above]) <= rank:
            break
        p.ready[first + at] = p.ready[first + above]
        at = above
    p.ready[first + at] = item


@compiled_inside
def _take_ready(p: _Pipeline, channel: int) -> int:
    first = p.ready_start[channel]
    top: int = p.ready[first]
    p.ready_count[channel] -= 1
    size = p.ready_count[channel]
    item = p.ready[first + size]
    rank = _rank(p, item)
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and _rank(p, p.ready[first + below + 1]) < _rank(p, p.ready[first + below]):
            below += 1
        if rank <= _rank(p, p.ready[first + below]):
            break
        p.ready[first + at] = p.ready[first + below]
        at = below
    p.ready[first + at] = item
    return top


@compiled_inside
def _send(p: _Pipeline, heap: Heap, channels: int, channel: int, now: float, order: Longs, count: int) -> int:
    """Let an idle channel send the most urgent of what is ready; how many have begun then."""
    if heap.place[channel] >= 0 or p.ready_count[channel] == 0:
        return count
    item = _take_ready(p, channel)
    order[count] = item
    done = now + p.duration[item // p.segments]
    p.lands[item] = done + p.latency[item // p.segments]
    schedule_at(heap, channel, done)
    if p.flying_first[channel] < 0:
        p.flying_first[channel] = item
        schedule_at(heap, channels + channel, p.lands[item])
    else:
        p.behind[p.flying_last[channel]] = item
    p.flying_last[channel] = item
    return count + 1


@compiled
def _greedy_order(p: _Pipeline, heap: Heap, channels: int) -> Longs:
    order = np.empty(len(p.missing), dtype=np.int64)
    count = 0
    for item in range(len(p.missing)):
        if p.missing[item] == 0:
            _make_ready(p, item)
    for channel in range(channels):
        count = _send(p, heap, channels, channel, 0.0, order, count)
    while heap.size[0] > 0:
        event = wide(heap.items[0])
        now = heap.time[event]
        take_out(heap, event)
        if event < channels:
            count = _send(p, heap, channels, event, now, order, count)
            continue
        channel = event - channels
        item = p.flying_first[channel]
        p.flying_first[channel] = p.behind[item]
        if p.flying_first[channel] >= 0:
            schedule_at(heap, event, p.lands[p.flying_first[channel]])
        t, segment = item // p.segments, item % p.segments
        for i in range(p.after_start[t], p.after_start[t + 1]):
            waiting = p.after[i] * p.segments + segment
            p.missing[waiting] -= 1
            if p.missing[waiting] == 0:
                _make_ready(p, waiting)
                count = _send(p, heap, channels, wide(p.channel[p.after[i]]), now, order, count)
    return order[:count]
