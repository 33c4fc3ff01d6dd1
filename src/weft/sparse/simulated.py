"""The ground between: the messages that really came out, on a network, by the flow simulator.

A worker's next round begins when all that it expected in the last has arrived; what it sends in one round leaves at once, and
shares its links. What workers compute in between takes no time here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np

from weft.errors import InputError
from weft.network import Network
from weft.simulation.messages import simulate_messages
from weft.sparse.memory import Conversation
from weft.sparse.rounds import Result


@dataclass(frozen=True, slots=True)
class SimulatedTimes:
    """How long a conversation takes, and when each worker has all that it waits for."""

    seconds: float
    workers: tuple[float, ...]


def simulated(
    conversation: Conversation[Result],
    network: Network,
    *,
    message_seconds: float = 0.0,
    wake_seconds: float = 0.0,
    efficiency: float = 1.0,
) -> SimulatedTimes:
    """A conversation on a network, whose workers are its workers in the order of their ranks.

    ``message_seconds`` is what a message takes at least, ``wake_seconds`` what passes until its receiver has noticed it, and
    ``efficiency`` the part of the links' rates that is left for data.
    """
    workers = len(conversation.results)
    if workers != len(network.workers):
        raise InputError(f"{workers} workers talk, but {network.name!r} has {len(network.workers)}")
    if not conversation.deliveries:
        return SimulatedTimes(0.0, (0.0,) * workers)
    order = sorted(conversation.deliveries, key=attrgetter("destination", "received_in"))
    # The number of messages that a worker has received before a round of its own begins.
    before = np.zeros((workers, max(conversation.rounds) + 1), np.int64)
    for (worker, turn), group in groupby(order, key=attrgetter("destination", "received_in")):
        before[worker, turn + 1 :] += len(list(group))
    # A channel carries its messages in the order of the list, which is the order in which they were sent.
    ended = simulate_messages(
        network,
        np.array([d.source for d in order]),
        np.array([d.destination for d in order]),
        np.array([float(d.nbytes) for d in order]),
        np.array([before[d.source, d.sent_in] for d in order]),
        message_seconds=message_seconds,
        wake_seconds=wake_seconds,
        efficiency=efficiency,
    )
    finished = np.zeros(workers)
    np.maximum.at(finished, [d.destination for d in order], ended)
    return SimulatedTimes(float(ended.max()), tuple(finished.tolist()))
