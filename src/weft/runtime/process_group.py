"""ProcessGroupTransport: the point-to-point operations of torch.distributed.

The backend's own ``send`` and ``recv`` are called, which is about a tenth faster than ``isend`` and ``irecv``. Nothing is
created: any number of schedules runs on the group that is there.

NCCL ignores tags, so schedules follow one another there, and it queues what two ranks send each other in one line for
both directions, in which a receive that is posted ahead would hold up the send behind it. So messages to lower ranks
take a second group, made once. Waiting with a limit blocks the thread on NCCL as on gloo. (This follows NCCL's documentation;
it has not been run on GPUs yet.)

Facts about gloo that this relies on: operations of a pair and tag match in the order in which they are posted; an
operation can be waited for once only; whoever waits in vain closes all connections of its process, which wakes every
wait here at once and, one after the other, those of all peers.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from threading import Lock
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from weft.errors import InputError
from weft.runtime.transport import TransportError

FIRST_TAG = 0x5700_0000
"""Far from the tags that people use."""
ABORT_TAG = FIRST_TAG - 1

_transports_made: Counter[str] = Counter()


class _Work:
    """A message on its way; ``wait`` may be called by several threads and more than once, which gloo does not allow."""

    __slots__ = ("_done", "_lock", "_peer", "_work")

    def __init__(self, work: Any, peer: int) -> None:
        self._work, self._peer = work, peer
        self._lock = Lock()
        self._done = False

    def wait(self, seconds: float) -> None:
        with self._lock:
            if self._done:
                return
            try:
                self._work.wait(timedelta(seconds=max(seconds, 0.001)))
            except RuntimeError as error:
                raise _transport_error(self._peer, error) from error
            self._done = True
            self._work = None


def _transport_error(peer: int, error: RuntimeError) -> TransportError:
    text = str(error)
    late = "imed out" in text
    if late or "Application timeout" in text:
        return TransportError(peer, "no answer in time", late=late)
    closed = "connection closed" if "closed" in text or "reset" in text else text.split("] ", 1)[-1]
    return TransportError(peer, closed)


class StoreBoard:
    """The notes of one transport in the store with which torch.distributed was set up, over a connection of its own."""

    def __init__(self, store: Store, prefix: str, keeper: int | None) -> None:
        own: Any = store
        self._store = PrefixStore(prefix, own.clone() if hasattr(own, "clone") else own)
        self.keeper = keeper

    def post(self, key: str, text: str) -> None:
        self._store.set(key, text)

    def read(self, keys: Sequence[str]) -> list[str | None]:
        return [self._store.get(key).decode() if self._store.check([key]) else None for key in keys]


def _keeper(group: dist.ProcessGroup) -> int | None:
    """Rank 0 keeps the store, unless torchrun does it; None where that is nobody of the group."""
    members = dist.get_process_group_ranks(group)
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" or 0 not in members:
        return None
    return members.index(0)


class ProcessGroupTransport:
    """A process group that exists, used by point-to-point operations alone."""

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        device: torch.device | str = "cpu",
        downward: dist.ProcessGroup | None = None,
    ) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise InputError("torch.distributed is not set up: call torch.distributed.init_process_group first")
        found = dist.group.WORLD if group is None else group
        assert found is not None
        self.rank, self.size = found.rank(), found.size()
        if self.rank < 0:
            raise InputError(f"rank {dist.get_rank()} is not in the group: only its members can use it")
        up: Any = found._get_backend(torch.device(device))
        self.keeps_tags_apart = up.name() == "gloo"
        if downward is None and not self.keeps_tags_apart and self.size > 1:
            raise InputError(
                f"{up.name()} needs a second group of the same ranks for messages to lower ranks: give one"
            )
        down: Any = up if downward is None else downward._get_backend(torch.device(device))
        self._up, self._down = up, down
        name = str(found.group_name)
        self.board = StoreBoard(found.get_group_store(), f"weft/{name}/{_transports_made[name]}", _keeper(found))
        _transports_made[name] += 1

    def send(self, tensor: torch.Tensor, peer: int, tag: int) -> _Work:
        try:
            backend = self._up if peer > self.rank else self._down
            return _Work(backend.send([tensor], peer, FIRST_TAG + tag), peer)
        except RuntimeError as error:
            raise _transport_error(peer, error) from error

    def receive(self, tensor: torch.Tensor, peer: int, tag: int) -> _Work:
        try:
            backend = self._up if peer < self.rank else self._down
            return _Work(backend.recv([tensor], peer, FIRST_TAG + tag), peer)
        except RuntimeError as error:
            raise _transport_error(peer, error) from error

    def abort(self) -> None:
        for backend in {id(backend): backend for backend in (self._up, self._down)}.values():
            if self.keeps_tags_apart:
                self._close_connections(backend)
            else:
                backend.abort()

    def _close_connections(self, backend: Any) -> None:
        """Wait in vain for a message that nobody sends: see above. A closed connection says so at once: try the next."""
        for peer in range(self.size):
            if peer == self.rank:
                continue
            with contextlib.suppress(RuntimeError):
                nothing = backend.recv([torch.empty(1)], peer, ABORT_TAG)
                try:
                    nothing.wait(timedelta(milliseconds=1))
                except RuntimeError as error:
                    if "imed out" in str(error):
                        return
