"""The simulator's event loop, compiled.

One heap of times; whatever happens at exactly the same time is handled together, and sharing is recomputed once
afterwards. Times that are nearly the same are never merged: on a chain of dependent transfers the error would add up.

A channel carries its transfers in order, one after the other: the next begins when the last byte of the one before has
arrived. A transfer first waits for its route's latency and then takes its share of bandwidth. Every channel is a flow;
background flows come behind the channels, and the workers' adders behind those, in the numbering of the heap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.compiled import compiled_in_place
from weft.simulation.heap import Heap, schedule_at, take_out
from weft.simulation.sharing import (
    Bools,
    Bytes,
    Changes,
    Floats,
    Flows,
    Ints,
    Links,
    Longs,
    join,
    leave,
    recapacitate,
    settle,
    share_again,
)

RUNNING, DONE, STALLED = 0, 1, 2
IDLE, WAITING, TRAVELLING, FLOWING, HELD = 0, 1, 2, 3, 4
LINK_CHANGES, WORKER_PAUSES, WORKER_RESUMES, BACKGROUND_STARTS, BACKGROUND_STOPS = 0, 1, 2, 3, 4


class Work(NamedTuple):
    """What is to be sent; constant. See ``weft.dependencies.Entries`` for the entries.

    Transfers are numbered channel by channel here, so that what is read together lies together in memory: channel ``c``
    carries the transfers ``channel_start[c]`` to ``channel_start[c + 1]``.
    """

    entry_start: Longs
    read: Longs
    written: Longs
    needs: Ints
    write_start: Longs
    writes: Longs
    size: Floats
    reduces: Bools
    channel_start: Longs
    channel_source: Ints
    channel_latency: Floats
    by_source_start: Longs
    by_source: Ints
    chunks: int
    add_cost: float
    """seconds per byte that a worker needs to add"""


class Disturbances(NamedTuple):
    """Timed events, in order of time: what happens to which link, worker or background flow."""

    time: Floats
    kind: Bytes
    target: Ints
    value: Floats


class Channels(NamedTuple):
    state: Bytes
    following: Longs
    """the next transfer of a channel"""
    waits_behind: Ints
    """the next channel that waits for the same cell, or -1"""


class Cells(NamedTuple):
    applied: Ints
    first_waiting: Ints
    arrived: Bytes


class Adders(NamedTuple):
    """Every worker adds one thing at a time, in the order in which additions become possible."""

    first: Longs
    last: Longs
    behind: Longs


class Record(NamedTuple):
    started: Floats
    ended: Floats
    limiter: Ints


class Clock(NamedTuple):
    now: Floats
    done: Longs
    """transfers that have arrived"""
    adding: Longs
    """additions that are waited for"""
    finish: Floats
    """when the last transfer or addition ended"""
    next_event: Longs
    paused: Ints


@compiled_in_place
def _flow(
    channel: int, work: Work, channels: Channels, flows: Flows, links: Links, changes: Changes, heap: Heap, clock: Clock
) -> None:
    """The latency is over: the bytes of a channel's transfer begin to flow, if its worker is not paused."""
    now = clock.now[0]
    if flows.remaining[channel] <= 0:
        channels.state[channel] = FLOWING
        schedule_at(heap, channel, now)
    elif clock.paused[work.channel_source[channel]] > 0:
        channels.state[channel] = HELD
    else:
        channels.state[channel] = FLOWING
        join(flows, links, changes, channel, now)


@compiled_in_place
def _begin(
    channel: int, work: Work, channels: Channels, cells: Cells, flows: Flows, links: Links, changes: Changes, heap: Heap,
    record: Record, clock: Clock,
) -> None:  # fmt: skip
    """Start a channel's next transfer if its data is there; otherwise let the channel wait for the missing cell."""
    transfer = channels.following[channel]
    if transfer >= work.channel_start[channel + 1]:
        channels.state[channel] = IDLE
        return
    for entry in range(work.entry_start[transfer], work.entry_start[transfer + 1]):
        cell = work.read[entry]
        if cells.applied[cell] < work.needs[entry]:
            channels.state[channel] = WAITING
            channels.waits_behind[channel] = cells.first_waiting[cell]
            cells.first_waiting[cell] = channel
            return
    channels.following[channel] = transfer + 1
    record.started[transfer] = clock.now[0]
    flows.remaining[channel] = work.size[transfer]
    flows.main_limiter[channel] = -1
    flows.votes[channel] = 0.0
    latency = work.channel_latency[channel]
    if latency > 0:
        channels.state[channel] = TRAVELLING
        schedule_at(heap, channel, clock.now[0] + latency)
    else:
        _flow(channel, work, channels, flows, links, changes, heap, clock)


@compiled_in_place
def _apply(
    cell: int, work: Work, channels: Channels, cells: Cells, adders: Adders, flows: Flows, links: Links, changes: Changes,
    heap: Heap, record: Record, clock: Clock, entry_transfer: Ints,
) -> None:  # fmt: skip
    """Apply what has arrived at a cell, in the order of the list, and start what waited for it."""
    before = cells.applied[cell]
    while work.write_start[cell] + cells.applied[cell] < work.write_start[cell + 1]:
        entry = work.writes[work.write_start[cell] + cells.applied[cell]]
        if cells.arrived[entry] == 0:
            break
        if work.add_cost > 0 and cells.arrived[entry] < 3 and work.reduces[entry_transfer[entry]]:
            if cells.arrived[entry] == 1:
                cells.arrived[entry] = 2
                clock.adding[0] += 1
                worker = cell // work.chunks
                adders.behind[entry] = -1
                if adders.first[worker] < 0:
                    adders.first[worker] = entry
                    _add_next(worker, work, adders, heap, clock, entry_transfer, len(flows.joined))
                else:
                    adders.behind[adders.last[worker]] = entry
                adders.last[worker] = entry
            break
        cells.applied[cell] += 1
    if cells.applied[cell] == before:
        return
    channel = cells.first_waiting[cell]
    cells.first_waiting[cell] = -1
    while channel >= 0:
        following = channels.waits_behind[channel]
        _begin(channel, work, channels, cells, flows, links, changes, heap, record, clock)
        channel = following


@compiled_in_place
def _add_next(
    worker: int, work: Work, adders: Adders, heap: Heap, clock: Clock, entry_transfer: Ints, first_adder: int
) -> None:
    entry = adders.first[worker]
    transfer = entry_transfer[entry]
    size = work.size[transfer] / (work.entry_start[transfer + 1] - work.entry_start[transfer])
    schedule_at(heap, first_adder + worker, clock.now[0] + size * work.add_cost)


@compiled_in_place
def _disturb(
    i: int, events: Disturbances, work: Work, channels: Channels, flows: Flows, links: Links, changes: Changes, heap: Heap,
    clock: Clock,
) -> None:  # fmt: skip
    """One timed event."""
    now, kind, target = clock.now[0], events.kind[i], events.target[i]
    if kind == LINK_CHANGES:
        recapacitate(links, changes, target, events.value[i])
    elif kind in (WORKER_PAUSES, WORKER_RESUMES):
        was = clock.paused[target]
        clock.paused[target] += 1 if kind == WORKER_PAUSES else -1
        if (was > 0) == (clock.paused[target] > 0):
            return
        for k in range(work.by_source_start[target], work.by_source_start[target + 1]):
            channel = work.by_source[k]
            if kind == WORKER_PAUSES and channels.state[channel] == FLOWING and flows.joined[channel]:
                settle(flows, channel, now)
                leave(flows, links, changes, channel)
                take_out(heap, channel)
                channels.state[channel] = HELD
            elif kind == WORKER_RESUMES and channels.state[channel] == HELD:
                channels.state[channel] = FLOWING
                join(flows, links, changes, channel, now)
    elif kind == BACKGROUND_STARTS:
        flows.remaining[target] = events.value[i]
        join(flows, links, changes, target, now)
    elif flows.joined[target]:
        leave(flows, links, changes, target)
        take_out(heap, target)


@compiled_in_place
def _happen(
    item: int, work: Work, channels: Channels, cells: Cells, adders: Adders, flows: Flows, links: Links, changes: Changes,
    heap: Heap, record: Record, clock: Clock, entry_transfer: Ints,
) -> None:  # fmt: skip
    """The next event of a channel, a background flow or an adder."""
    channel_count, flow_count = len(channels.state), len(flows.joined)
    if item >= flow_count:
        worker = item - flow_count
        entry = adders.first[worker]
        cells.arrived[entry] = 3
        clock.adding[0] -= 1
        clock.finish[0] = clock.now[0]
        adders.first[worker] = adders.behind[entry]
        if adders.first[worker] >= 0:
            _add_next(worker, work, adders, heap, clock, entry_transfer, flow_count)
        _apply(
            work.written[entry],
            work,
            channels,
            cells,
            adders,
            flows,
            links,
            changes,
            heap,
            record,
            clock,
            entry_transfer,
        )
        return
    if item >= channel_count:
        leave(flows, links, changes, item)
        return
    if channels.state[item] == TRAVELLING:
        _flow(item, work, channels, flows, links, changes, heap, clock)
        return
    transfer = channels.following[item] - 1
    settle(flows, item, clock.now[0])
    if flows.joined[item]:
        leave(flows, links, changes, item)
    flows.remaining[item] = 0.0
    record.ended[transfer] = clock.now[0]
    record.limiter[transfer] = flows.main_limiter[item]
    clock.done[0] += 1
    clock.finish[0] = clock.now[0]
    for entry in range(work.entry_start[transfer], work.entry_start[transfer + 1]):
        cells.arrived[entry] = 1
        _apply(
            work.written[entry],
            work,
            channels,
            cells,
            adders,
            flows,
            links,
            changes,
            heap,
            record,
            clock,
            entry_transfer,
        )
    _begin(item, work, channels, cells, flows, links, changes, heap, record, clock)


@compiled_in_place
def advance(
    work: Work, events: Disturbances, channels: Channels, cells: Cells, adders: Adders, flows: Flows, links: Links,
    changes: Changes, heap: Heap, record: Record, clock: Clock, rates: Floats, entry_transfer: Ints, most_events: int,
) -> int:  # fmt: skip
    """Run until everything is done, nothing can move any more, or so many events have happened."""
    if clock.now[0] < 0:
        clock.now[0] = 0.0
        for channel in range(len(channels.state)):
            _begin(channel, work, channels, cells, flows, links, changes, heap, record, clock)
        share_again(flows, links, changes, heap, rates, 0.0)
    total = len(work.size)
    for _ in range(most_events):
        if clock.done[0] == total and clock.adding[0] == 0:
            return DONE
        now = heap.time[heap.items[0]] if heap.size[0] > 0 else np.inf
        following = clock.next_event[0]
        if following < len(events.time):
            now = min(now, events.time[following])
        if now == np.inf:
            return STALLED
        clock.now[0] = now
        while clock.next_event[0] < len(events.time) and events.time[clock.next_event[0]] <= now:
            _disturb(clock.next_event[0], events, work, channels, flows, links, changes, heap, clock)
            clock.next_event[0] += 1
        while heap.size[0] > 0 and heap.time[heap.items[0]] <= now:
            item = heap.items[0]
            take_out(heap, item)
            _happen(item, work, channels, cells, adders, flows, links, changes, heap, record, clock, entry_transfer)
        share_again(flows, links, changes, heap, rates, now)
    return RUNNING
