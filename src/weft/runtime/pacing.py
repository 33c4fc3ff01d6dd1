"""Pacing: connections that send a little slower than the links on their way allow.

Whoever sends as fast as it can fills the queue in front of the narrowest link, and everything else that passes there waits in it:
other connections' data, and the acknowledgements of whatever comes the other way. Where links are full in both directions that
costs several percent. A plan knows what every channel gets when all of them send, so the kernel can be told to send at that
rate (``SO_MAX_PACING_RATE``, Linux) and the queues stay short. Plans whose channels take turns lose by it, so it is tried.

Connections are the backend's. They are found among the open files of the process, by their two ends, which two ranks have in
common; nothing keeps them open. They are slowed only while a plan that wants it is in flight.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import torch.distributed as dist

from weft.packing.fair import fair_rates
from weft.planning import Plan
from weft.runtime.together import gathered

PART = 0.97
"""of a channel's rate: frames have headers, and what is sent in excess waits in a queue"""
MOST_RANKS = 64
"""With more, the lists of connections that ranks show each other get long."""
_SO_MAX_PACING_RATE = 47
_UNLIMITED = 0xFFFFFFFF
_OPEN_FILES = Path("/proc/self/fd")

Ends = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Connection:
    """An open connection of this process; ``inode`` tells whether the descriptor still is what it was."""

    descriptor: int
    inode: str
    ends: Ends

    def limit(self, rate: int) -> None:
        """Send at most so many bytes a second; nothing happens if the connection is gone."""
        with contextlib.suppress(OSError):
            if str((_OPEN_FILES / str(self.descriptor)).readlink()) == self.inode:
                with _borrowed(self.descriptor) as own:
                    own.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=I", min(rate, _UNLIMITED)))


class Pacing:
    """The connections to every peer, and at which rates the plans send that want it."""

    def __init__(self, rank: int, peers: Mapping[int, list[Connection]]) -> None:
        self._rank, self._peers = rank, peers
        self._rates: dict[str, dict[int, int]] = {}
        self._lock = Lock()
        self._flying = 0

    def adopt(self, plan: Plan) -> None:
        """From now on this plan is paced."""
        pairs = sorted(set(zip(plan.schedule.source.tolist(), plan.schedule.destination.tolist(), strict=True)))
        rates = fair_rates(plan.network, pairs).tolist()
        self._rates[plan.digest] = {
            peer: int(PART * rate) for (source, peer), rate in zip(pairs, rates, strict=True) if source == self._rank
        }

    def drop(self, plan: Plan) -> None:
        """It is not paced any more."""
        self._rates.pop(plan.digest, None)

    def begin(self, digest: str) -> bool:
        """An execution begins; whether it is paced, and its end must be told."""
        rates = self._rates.get(digest)
        if rates is None:
            return False
        with self._lock:
            self._flying += 1
            for peer, rate in rates.items():
                for connection in self._peers.get(peer, ()):
                    connection.limit(rate)
        return True

    def end(self) -> None:
        """A paced execution has ended; after the last one everybody may send as before."""
        with self._lock:
            self._flying -= 1
            if self._flying == 0:
                for connections in self._peers.values():
                    for connection in connections:
                        connection.limit(_UNLIMITED)


def pacing_of(group: dist.ProcessGroup | None = None) -> Pacing | None:
    """For the connections between the ranks of a group, which all call this together; none where some rank cannot."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    own = list(_connections()) if ranks <= MOST_RANKS else []
    texts = gathered(json.dumps([connection.ends for connection in own]).encode(), group=group)
    shown: list[list[Ends]] = [[(ours, theirs) for ours, theirs in json.loads(text)] for text in texts]
    owner = {ends: peer for peer, several in enumerate(shown) for ends in several}
    peers: dict[int, list[Connection]] = {}
    for connection in own:
        peer = owner.get((connection.ends[1], connection.ends[0]))
        if peer is not None and peer != rank:
            peers.setdefault(peer, []).append(connection)
    return Pacing(rank, peers) if all(shown) else None


def _connections() -> Iterator[Connection]:
    """The connections of TCP that this process has open."""
    for file in _OPEN_FILES.iterdir() if _OPEN_FILES.is_dir() else ():
        with contextlib.suppress(OSError):
            inode = str(file.readlink())
            if inode.startswith("socket:"):
                with _borrowed(int(file.name)) as found:
                    if found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM:
                        yield Connection(
                            int(file.name), inode, (_text(found.getsockname()), _text(found.getpeername()))
                        )


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]} {address[1]}"


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """A socket that is somebody else's and stays open."""
    found = socket.socket(fileno=descriptor)
    try:
        yield found
    finally:
        found.detach()
