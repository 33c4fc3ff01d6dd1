"""simulate: how long a schedule takes on a network, and why."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from weft.dependencies import Entries, entries
from weft.errors import InputError, SimulationError
from weft.heap import empty_heap
from weft.network import Network, Routes
from weft.schedule import REDUCE, Schedule
from weft.simulation.conditions import Conditions
from weft.simulation.engine import (
    DONE,
    RUNNING,
    Adders,
    Cells,
    Channels,
    Clock,
    Disturbances,
    Record,
    State,
    Work,
    advance,
)
from weft.simulation.result import Simulation, check_fit
from weft.simulation.sharing import Floats, new_changes, new_flows, new_links

Channel = Literal["stream", "blocking", "shared"]
_EVENTS_BETWEEN_REPORTS = 5_000


def simulate(
    schedule: Schedule,
    network: Network,
    nbytes: float,
    conditions: Conditions | None = None,
    *,
    channel: Channel = "stream",
    rtt_weights: bool = False,
    add_seconds_per_byte: float = 0.0,
    message_seconds: float = 0.0,
    wake_seconds: float = 0.0,
    unfairness: float = 0.0,
    efficiency: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
    stop: Callable[[float], bool] | None = None,
) -> Simulation:
    """Run a schedule for a tensor of ``nbytes`` on a network, flow by flow.

    ``channel`` says how transfers from one worker to another follow each other. ``"stream"``: one after the other, and the
    next begins when the last byte of the one before has left, as on a connection. ``"blocking"``: when it has arrived, as if
    each waited for an answer. ``"shared"``: all that are ready share the route, as if each had its own connection.
    ``rtt_weights`` shares bandwidth in inverse proportion to a route's latency, as TCP tends to. ``message_seconds`` is what a
    message takes at least, however small: its handling overlaps with the bytes of its neighbours; ``wake_seconds`` is what
    passes besides until its receiver has noticed it, while the channel goes on. ``efficiency`` is the part of the links' rates
    that is left for data, after headers, acknowledgements and what connections leave idle. ``unfairness`` makes connections
    share unevenly, as those of TCP do: the logarithms of their weights spread by so much, each pair of workers by a fixed
    draw. Where a schedule has one connection a link it changes nothing; where many meet, some are late and others wait for
    them. ``progress`` is called now and then with the number of transfers done and of all; ``stop`` with the simulated time,
    and if it says so the simulation ends with a ``SimulationError``.
    """
    _check(schedule, network, nbytes, channel, (add_seconds_per_byte, message_seconds, wake_seconds, unfairness))
    if not 0 < efficiency <= 1:
        raise InputError(f"an efficiency of {efficiency} is not possible: it must be more than 0 and at most 1")
    conditions = conditions or Conditions()
    pairs, channel_pair, order, starts = _channels(schedule, channel)
    parts = reordered(entries(schedule), order)
    backgrounds = conditions.backgrounds
    routes = network.routes(
        np.concatenate([pairs[0], [network.number(b.source) for b in backgrounds]]).astype(np.int32),
        np.concatenate([pairs[1], [network.number(b.destination) for b in backgrounds]]).astype(np.int32),
    )
    flow_route = np.concatenate([channel_pair, len(pairs[0]) + np.arange(len(backgrounds))]).astype(np.int64)
    weight = _weights(routes, rtt_weights)[flow_route]
    weight[len(channel_pair) :] *= [b.flows for b in backgrounds]
    if unfairness > 0:
        weight[: len(channel_pair)] *= np.exp(unfairness * _fixed_draws(pairs[0], pairs[1]))[channel_pair]
    sources = pairs[0][channel_pair]
    latency = routes.latency[channel_pair] + wake_seconds
    streams = channel == "stream"
    sizes = schedule.transfer_bytes(nbytes)[order] / efficiency
    if message_seconds > 0:
        least = message_seconds * slowest_links(network, routes)
        sizes = np.maximum(sizes, least[np.repeat(channel_pair, np.diff(starts))])
    work = _work(schedule, network, sizes, parts, sources, latency, starts, order, streams, add_seconds_per_byte)
    events = conditions.events(network, len(channel_pair))
    record, seconds = run_flows(
        work, events, routes, flow_route, weight, network, len(parts.write_start) - 1, progress, stop
    )
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    times = record.started[back], record.sent[back], record.ended[back]
    return Simulation(schedule, network, nbytes, seconds, *times, record.limiter[back], channel)


def _check(schedule: Schedule, network: Network, nbytes: float, channel: str, extras: tuple[float, ...]) -> None:
    check_fit(schedule, network)
    if not (math.isfinite(nbytes) and nbytes > 0):
        raise InputError(f"a tensor of {nbytes} bytes is not possible: it must be more than 0")
    if channel not in get_args(Channel):
        raise InputError(f"the channel {channel!r} is unknown: use stream, blocking or shared")
    whats = "an adding cost, in seconds per byte,", "a cost of messages, in seconds,", "a waking time", "an unfairness"
    for what, extra in zip(whats, extras, strict=True):
        if not (math.isfinite(extra) and extra >= 0):
            raise InputError(f"{what} of {extra} is not possible: it must be 0 or more")


def _channels(
    schedule: Schedule, channel: Channel
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """The pairs of workers, each channel's pair, and the channels' transfers in order."""
    key = schedule.source.astype(np.int64) * schedule.workers + schedule.destination
    found, of = np.unique(key, return_inverse=True)
    pairs = (found // schedule.workers).astype(np.int32), (found % schedule.workers).astype(np.int32)
    if channel == "shared":
        return pairs, of, np.arange(len(key)), np.arange(len(key) + 1)
    starts = np.zeros(len(found) + 1, dtype=np.int64)
    np.cumsum(np.bincount(of, minlength=len(found)), out=starts[1:])
    return pairs, np.arange(len(found)), np.argsort(of, kind="stable"), starts


def _fixed_draws(source: np.ndarray, destination: np.ndarray) -> np.ndarray:
    """For every pair of workers a number as if drawn from a normal distribution; always the same for the same pair."""
    key = (source.astype(np.uint64) << np.uint64(32)) + destination.astype(np.uint64) + np.uint64(1)
    parts = []
    for turn in (1, 2):
        mixed = key * np.uint64(0x9E3779B97F4A7C15) * np.uint64(turn)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        parts.append(((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 2.0**53)
    draws: np.ndarray = np.sqrt(-2 * np.log1p(-parts[0])) * np.cos(2 * np.pi * parts[1])
    return draws


def slowest_links(network: Network, routes: Routes) -> np.ndarray:
    """The bandwidth of the slowest link of every route."""
    slowest: np.ndarray = np.minimum.reduceat(network.graph.bandwidth[routes.links], routes.start[:-1])
    return slowest


def _weights(routes: Routes, by_round_trip: bool) -> np.ndarray:
    if not by_round_trip:
        return np.ones(len(routes.latency))
    # Routes without any latency count as one, as in SimGrid; only ratios matter among the others.
    return np.where(routes.latency > 0, 1.0 / np.maximum(routes.latency, 1e-300), 1.0)


def _work(
    schedule: Schedule, network: Network, sizes: np.ndarray, parts: Entries, sources: np.ndarray, latency: np.ndarray,
    starts: np.ndarray, order: np.ndarray, streams: bool, add_cost: float,
) -> Work:  # fmt: skip
    by_source_start = np.zeros(len(network.workers) + 1, dtype=np.int64)
    np.cumsum(np.bincount(sources, minlength=len(network.workers)), out=by_source_start[1:])
    return Work(
        parts.start, parts.read, parts.written, parts.needs, parts.write_start, parts.writes,
        sizes, (schedule.op == REDUCE)[order], starts.astype(np.int64),
        sources.astype(np.int32), np.ascontiguousarray(latency), by_source_start,
        np.argsort(sources, kind="stable").astype(np.int32), len(schedule.chunk_weights), streams, float(add_cost),
    )  # fmt: skip


def reordered(parts: Entries, order: np.ndarray) -> Entries:
    """The same entries with the transfers numbered in another order."""
    spans = np.diff(parts.start)[order]
    start = np.zeros(len(order) + 1, dtype=np.int64)
    np.cumsum(spans, out=start[1:])
    old = np.repeat(parts.start[:-1][order] - start[:-1], spans) + np.arange(start[-1])
    new = np.empty_like(old)
    new[old] = np.arange(len(old))
    return Entries(
        start,
        parts.read[old],
        parts.written[old],
        parts.needs[old],
        parts.turn[old],
        parts.write_start,
        new[parts.writes],
    )


def run_flows(
    work: Work, events: Disturbances, routes: Routes, flow_route: np.ndarray, weight: np.ndarray, network: Network,
    cell_count: int, progress: Callable[[int, int], None] | None, stop: Callable[[float], bool] | None,
) -> tuple[Record, float]:  # fmt: skip
    lengths = np.diff(routes.start)[flow_route]
    start = np.zeros(len(flow_route) + 1, dtype=np.int64)
    np.cumsum(lengths, out=start[1:])
    hop = np.repeat(routes.start[flow_route] - start[:-1], lengths) + np.arange(start[-1])
    flows = new_flows(start, routes.links[hop], routes.share[hop], weight)
    channel_count, worker_count, transfers = len(work.channel_source), len(network.workers), len(work.size)
    state = State(
        work=work,
        events=events,
        channels=Channels(
            state=np.zeros(channel_count, np.int8),
            following=work.channel_start[:-1].copy(),
            landing=work.channel_start[:-1].copy(),
            waits_behind=np.full(channel_count, -1, np.int32),
        ),
        cells=Cells(
            applied=np.zeros(cell_count, np.int32),
            first_waiting=np.full(cell_count, -1, np.int32),
            arrived=np.zeros(len(work.read), np.int8),
        ),
        adders=Adders(
            first=np.full(worker_count, -1, np.int64),
            last=np.full(worker_count, -1, np.int64),
            behind=np.zeros(len(work.read) if work.add_cost > 0 else 1, np.int64),
        ),
        flows=flows,
        links=new_links(network.graph.bandwidth, flows.link),
        changes=new_changes(len(network.links), len(flow_route)),
        heap=empty_heap(len(flow_route) + worker_count + channel_count),
        record=Record(
            started=np.full(transfers, np.nan),
            sent=np.full(transfers, np.nan),
            ended=np.full(transfers, np.nan),
            limiter=np.full(transfers, -1, np.int32),
        ),
        clock=Clock(
            now=np.full(1, -1.0),
            done=np.zeros(1, np.int64),
            adding=np.zeros(1, np.int64),
            finish=np.zeros(1),
            next_event=np.zeros(1, np.int64),
            paused=np.zeros(worker_count, np.int32),
        ),
        rates=np.zeros(len(flow_route)),
        entry_transfer=np.repeat(np.arange(transfers, dtype=np.int32), np.diff(work.entry_start)),
    )
    status = RUNNING
    while status == RUNNING:
        status = advance(state, _EVENTS_BETWEEN_REPORTS)
        if progress is not None:
            progress(int(state.clock.done[0]), transfers)
        if status == RUNNING and stop is not None and stop(float(state.clock.now[0])):
            raise SimulationError(f"stopped after {state.clock.now[0]:g} simulated seconds")
    if status != DONE:
        raise SimulationError(_why_nothing_moves(state.links.capacity, state.clock, network, transfers))
    return state.record, float(state.clock.finish[0])


def _why_nothing_moves(capacity: Floats, clock: Clock, network: Network, transfers: int) -> str:
    """Nothing moves for ever: name what is stopped."""
    stopped = [network.links[i].name for i in np.flatnonzero(capacity <= 0)]
    paused = [network.workers[i] for i in np.flatnonzero(clock.paused > 0)]
    causes = ([f"stopped links {', '.join(stopped[:4])}"] if stopped else []) + (
        [f"paused workers {', '.join(paused[:4])}"] if paused else []
    )
    return (
        f"nothing moves after {clock.now[0]:g} s: {transfers - int(clock.done[0])} of {transfers} transfers wait for "
        f"{' and '.join(causes) or 'each other'}; let the conditions end"
    )
