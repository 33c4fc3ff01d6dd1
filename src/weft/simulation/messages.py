"""Messages on a network that are no schedule's: each leaves when its source has received so many."""

from __future__ import annotations

import numpy as np

from weft.dependencies import Entries
from weft.errors import InputError
from weft.network import Network
from weft.schedule import Longs
from weft.simulation.conditions import Conditions
from weft.simulation.engine import Work
from weft.simulation.sharing import Floats
from weft.simulation.simulate import reordered, run_flows, slowest_links


def simulate_messages(
    network: Network,
    source: Longs,
    destination: Longs,
    nbytes: Floats,
    needs: Longs,
    *,
    message_seconds: float = 0.0,
    wake_seconds: float = 0.0,
    efficiency: float = 1.0,
) -> Floats:
    """When each of these messages has arrived, in seconds.

    Message i leaves when its source has received the first ``needs[i]`` of the messages to it, in the order in which they are
    listed. Messages from one worker to another travel in the order of the list, one after the other; others share the links.
    ``message_seconds`` is what a message takes at least, however small, ``wake_seconds`` what passes besides until its receiver
    has noticed it, and ``efficiency`` the part of the links' rates that is left for data: as for ``simulate``.
    """
    if not 0 < efficiency <= 1:
        raise InputError(f"an efficiency of {efficiency} is not possible: it must be more than 0 and at most 1")
    workers = len(network.workers)
    pair, of = np.unique(source * workers + destination, return_inverse=True)
    sources, destinations = (pair // workers).astype(np.int32), (pair % workers).astype(np.int32)
    order = np.argsort(of, kind="stable")
    starts = _starts(of, len(pair))
    parts = reordered(_entries(source, destination, needs, workers), order)
    routes = network.routes(sources, destinations)
    least = message_seconds * slowest_links(network, routes)
    sizes = np.maximum(nbytes[order] / efficiency, least[of[order]])
    work = Work(
        parts.start, parts.read, parts.written, parts.needs, parts.write_start, parts.writes,
        sizes, np.zeros(len(order), np.bool_), starts, sources,
        np.ascontiguousarray(routes.latency + wake_seconds), _starts(sources, workers),
        np.argsort(sources, kind="stable").astype(np.int32), 1, True, 0.0,
    )  # fmt: skip
    events = Conditions().events(network, len(pair))
    every = np.arange(len(pair))
    record, _ = run_flows(work, events, routes, every, np.ones(len(pair)), network, workers, None, None)
    ended = np.empty(len(order))
    ended[order] = record.ended
    return ended


def _starts(group: Longs, groups: int) -> Longs:
    starts = np.zeros(groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(group, minlength=groups), out=starts[1:])
    return starts


def _entries(source: Longs, destination: Longs, needs: Longs, workers: int) -> Entries:
    """Every worker is one cell: a message reads that of its source and is one more write into that of its destination."""
    writes = np.argsort(destination, kind="stable")
    write_start = _starts(destination, workers)
    turn = np.empty(len(source), np.int32)
    turn[writes] = np.arange(len(source)) - np.repeat(write_start[:-1], np.diff(write_start))
    return Entries(
        np.arange(len(source) + 1), source.astype(np.int64), destination.astype(np.int64), needs.astype(np.int32),
        turn, write_start, writes,
    )  # fmt: skip
