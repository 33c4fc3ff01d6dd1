"""The simulator's event loop, compiled.

One heap of times; whatever happens at exactly the same time is handled together, and sharing is recomputed once
afterwards. Times that are nearly the same are never merged: on a chain of dependent transfers the error would add up.

A channel carries its transfers in order, one after the other. On a streaming channel a transfer takes its share of
bandwidth, and its last byte arrives after the route's latency; the next begins when that byte has left. On a blocking
channel the latency comes first, and the next begins when the last byte has arrived. Every channel is a flow; behind the
channels, in the numbering of the heap, come background flows, the workers' adders, and what is under way on each channel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.compiled import compiled_in_place, compiled_inside, wide
from weft.heap import Heap, schedule_at, take_out
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
MISSING, ARRIVED, ADDING, ADDED = 0, 1, 2, 3
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
    streams: bool
    """whether a channel's next transfer may follow the one before at once"""
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
    """the next transfer to be sent"""
    landing: Longs
    """the next transfer to arrive"""
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
    sent: Floats
    """when the last byte left"""
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


class State(NamedTuple):
    """Everything that a running simulation consists of."""

    work: Work
    events: Disturbances
    channels: Channels
    cells: Cells
    adders: Adders
    flows: Flows
    links: Links
    changes: Changes
    heap: Heap
    record: Record
    clock: Clock
    rates: Floats
    """space for rates that are being worked out"""
    entry_transfer: Ints
    """the transfer of every entry"""


@compiled_inside
def _flow(state: State, channel: int) -> None:
    """The latency is over: the bytes of a channel's transfer begin to flow, if its worker is not paused."""
    channels, flows, now = state.channels, state.flows, state.clock.now[0]
    if flows.remaining[channel] <= 0:
        channels.state[channel] = FLOWING
        schedule_at(state.heap, channel, now)
    elif state.clock.paused[state.work.channel_source[channel]] > 0:
        channels.state[channel] = HELD
    else:
        channels.state[channel] = FLOWING
        join(flows, state.links, state.changes, channel, now)


@compiled_inside
def _begin(state: State, channel: int) -> None:
    """Start a channel's next transfer if its data is there; otherwise let the channel wait for the missing cell."""
    work, channels, cells, flows, now = state.work, state.channels, state.cells, state.flows, state.clock.now[0]
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
    state.record.started[transfer] = now
    flows.remaining[channel] = work.size[transfer]
    flows.main_limiter[channel] = -1
    flows.votes[channel] = 0.0
    latency = work.channel_latency[channel]
    if latency > 0 and not work.streams:
        channels.state[channel] = TRAVELLING
        schedule_at(state.heap, channel, now + latency)
    else:
        _flow(state, channel)


@compiled_inside
def _apply(state: State, cell: int) -> None:
    """Apply what has arrived at a cell, in the order of the list, and start what waited for it."""
    work, cells = state.work, state.cells
    before = cells.applied[cell]
    while work.write_start[cell] + cells.applied[cell] < work.write_start[cell + 1]:
        entry = work.writes[work.write_start[cell] + cells.applied[cell]]
        if cells.arrived[entry] == MISSING:
            break
        if work.add_cost > 0 and work.reduces[state.entry_transfer[entry]] and cells.arrived[entry] != ADDED:
            if cells.arrived[entry] == ARRIVED:
                _queue_addition(state, cell // work.chunks, entry)
            break
        cells.applied[cell] += 1
    if cells.applied[cell] == before:
        return
    channel = wide(cells.first_waiting[cell])
    cells.first_waiting[cell] = -1
    while channel >= 0:
        following = wide(state.channels.waits_behind[channel])
        _begin(state, channel)
        channel = following


@compiled_inside
def _queue_addition(state: State, worker: int, entry: int) -> None:
    """Let a worker's adder do one entry, after those that it has already."""
    adders = state.adders
    state.cells.arrived[entry] = ADDING
    state.clock.adding[0] += 1
    adders.behind[entry] = -1
    if adders.first[worker] < 0:
        adders.first[worker] = entry
        _add_next(state, worker)
    else:
        adders.behind[adders.last[worker]] = entry
    adders.last[worker] = entry


@compiled_inside
def _add_next(state: State, worker: int) -> None:
    transfer = state.entry_transfer[state.adders.first[worker]]
    entries = state.work.entry_start[transfer + 1] - state.work.entry_start[transfer]
    seconds = state.work.size[transfer] / entries * state.work.add_cost
    schedule_at(state.heap, len(state.flows.joined) + worker, state.clock.now[0] + seconds)


@compiled_inside
def _added(state: State, worker: int) -> None:
    """A worker's adder is done with an entry."""
    entry = state.adders.first[worker]
    state.cells.arrived[entry] = ADDED
    state.clock.adding[0] -= 1
    state.clock.finish[0] = state.clock.now[0]
    state.adders.first[worker] = state.adders.behind[entry]
    if state.adders.first[worker] >= 0:
        _add_next(state, worker)
    _apply(state, wide(state.work.written[entry]))


@compiled_inside
def _sent(state: State, channel: int) -> None:
    """The last byte of a channel's transfer has left, and on a blocking channel it has arrived with that."""
    flows, now, latency = state.flows, state.clock.now[0], state.work.channel_latency[channel]
    transfer = state.channels.following[channel] - 1
    settle(flows, channel, now)
    if flows.joined[channel]:
        leave(flows, state.links, state.changes, channel)
    flows.remaining[channel] = 0.0
    state.record.sent[transfer] = now
    state.record.limiter[transfer] = flows.main_limiter[channel]
    if not state.work.streams or latency == 0:
        _arrived(state, channel)
    elif state.channels.landing[channel] == transfer:
        schedule_at(state.heap, _arrival(state, channel), now + latency)
    _begin(state, channel)


@compiled_inside
def _arrival(state: State, channel: int) -> int:
    """The number in the heap of what is under way on a channel."""
    return len(state.flows.joined) + len(state.clock.paused) + channel


@compiled_inside
def _arrived(state: State, channel: int) -> None:
    """The last byte of the transfer that is first under way on a channel has arrived."""
    work, channels, now = state.work, state.channels, state.clock.now[0]
    transfer = channels.landing[channel]
    channels.landing[channel] = transfer + 1
    state.record.ended[transfer] = now
    state.clock.done[0] += 1
    state.clock.finish[0] = now
    sent = state.record.sent[transfer + 1] if transfer + 1 < channels.following[channel] else np.nan
    if sent <= now:
        schedule_at(state.heap, _arrival(state, channel), sent + work.channel_latency[channel])
    for entry in range(work.entry_start[transfer], work.entry_start[transfer + 1]):
        state.cells.arrived[entry] = ARRIVED
        _apply(state, wide(work.written[entry]))


@compiled_inside
def _happen(state: State, item: int) -> None:
    """The next event of a channel, a background flow, an adder, or of what is under way on a channel."""
    flows, workers = len(state.flows.joined), len(state.clock.paused)
    if item >= flows + workers:
        _arrived(state, item - flows - workers)
    elif item >= flows:
        _added(state, item - flows)
    elif item >= len(state.channels.state):
        leave(state.flows, state.links, state.changes, item)
    elif state.channels.state[item] == TRAVELLING:
        _flow(state, item)
    else:
        _sent(state, item)


@compiled_inside
def _pause_or_resume(state: State, worker: int, pauses: bool) -> None:
    """What a worker sends stops, or goes on."""
    work, channels, flows, now = state.work, state.channels, state.flows, state.clock.now[0]
    was = state.clock.paused[worker]
    state.clock.paused[worker] += 1 if pauses else -1
    if (was > 0) == (state.clock.paused[worker] > 0):
        return
    for k in range(work.by_source_start[worker], work.by_source_start[worker + 1]):
        channel = wide(work.by_source[k])
        if pauses and channels.state[channel] == FLOWING and flows.joined[channel]:
            settle(flows, channel, now)
            leave(flows, state.links, state.changes, channel)
            take_out(state.heap, channel)
            channels.state[channel] = HELD
        elif not pauses and channels.state[channel] == HELD:
            channels.state[channel] = FLOWING
            join(flows, state.links, state.changes, channel, now)


@compiled_inside
def _disturb(state: State, i: int) -> None:
    """One timed event."""
    kind, target, value = state.events.kind[i], wide(state.events.target[i]), state.events.value[i]
    if kind == LINK_CHANGES:
        recapacitate(state.links, state.changes, target, value)
    elif kind in (WORKER_PAUSES, WORKER_RESUMES):
        _pause_or_resume(state, target, kind == WORKER_PAUSES)
    elif kind == BACKGROUND_STARTS:
        state.flows.remaining[target] = value
        join(state.flows, state.links, state.changes, target, state.clock.now[0])
    elif state.flows.joined[target]:
        leave(state.flows, state.links, state.changes, target)
        take_out(state.heap, target)


@compiled_in_place
def advance(state: State, most_events: int) -> int:
    """Run until everything is done, nothing can move any more, or so many events have happened."""
    heap, clock, times = state.heap, state.clock, state.events.time
    if clock.now[0] < 0:
        clock.now[0] = 0.0
        for channel in range(len(state.channels.state)):
            _begin(state, channel)
        share_again(state.flows, state.links, state.changes, heap, state.rates, 0.0)
    for _ in range(most_events):
        if clock.done[0] == len(state.work.size) and clock.adding[0] == 0:
            return DONE
        now = heap.time[heap.items[0]] if heap.size[0] > 0 else np.inf
        if clock.next_event[0] < len(times):
            now = min(now, times[clock.next_event[0]])
        if now == np.inf:
            return STALLED
        clock.now[0] = now
        while clock.next_event[0] < len(times) and times[clock.next_event[0]] <= now:
            _disturb(state, clock.next_event[0])
            clock.next_event[0] += 1
        while heap.size[0] > 0 and heap.time[heap.items[0]] <= now:
            item = wide(heap.items[0])
            take_out(heap, item)
            _happen(state, item)
        share_again(state.flows, state.links, state.changes, heap, state.rates, now)
    return RUNNING
