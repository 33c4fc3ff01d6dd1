"""Averages on their way: a tensor that is being averaged over all ranks, by a schedule or by the backend itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Protocol

import torch
import torch.distributed as dist

from weft.errors import InputError
from weft.runtime.backend import launch_on_backend, wait_for_backend
from weft.runtime.communicators import communicator
from weft.runtime.contribution import ReduceOp
from weft.runtime.halves import Half, halves
from weft.runtime.program import Program
from weft.runtime.running import Running
from weft.schedule import Schedule
from weft.torch.buckets import Bucket
from weft.torch.choice import Choice, name_of, schedule_of

if TYPE_CHECKING:
    from weft.planning import Plan
    from weft.torch.choice import Way


class Flight(Protocol):
    """A tensor that is being averaged."""

    @property
    def begun(self) -> float:
        """When, on the clock of time.monotonic."""

    @property
    def ended(self) -> float:
        """When; 0 while it has not."""

    @property
    def bytes_sent(self) -> int:
        """By this rank."""

    def wait(self) -> None:
        """Return when the tensor holds the average; raise ``ExecutionError`` if that cannot be."""

    def when_done(self, call: Callable[[], None]) -> None:
        """Call this when it has ended, well or not, on some thread; at once if it has."""


class Averaging:
    """Starts to average tensors in place; which way each takes is a ``Choice``, which may change between two of them."""

    def __init__(
        self,
        choice: Choice,
        group: dist.ProcessGroup | None = None,
        weights: Sequence[float] | None = None,
        timeout: float | None = None,
    ) -> None:
        self.choice, self.timeout = choice, timeout
        self.wire: torch.dtype | None = None
        """the type in which schedules send, if it is not the tensor's own"""
        self._group = group
        self.ranks, self.rank = dist.get_world_size(group), dist.get_rank(group)
        choice.check(self.ranks)
        self.weights = None if weights is None else tuple(map(float, weights))
        self._share = 1.0 / self.ranks if self.weights is None else _share(self.weights, self.rank, self.ranks)

    def launch(self, tensor: torch.Tensor) -> Flight:
        """Start. All ranks do so in the same order; until its end the tensor must not be touched."""
        if self.ranks == 1:
            return Landed()
        way = self.way(tensor)
        if isinstance(way, str):
            return self.launch_on_backend(tensor)
        return self._executed(way, tensor)

    def share_on_arrival(self, bucket: Bucket) -> float:
        """What gradients must be multiplied by on their way into a bucket before it is launched: 1 unless that is of use here.

        They are copied then anyhow; before the backend's own all-reduce it would be one more pass over memory.
        """
        return self._share if self.ranks > 1 and isinstance(self.way(bucket.flat), str) else 1.0

    def launch_bucket(self, bucket: Bucket) -> Flight:
        """Start to average a bucket."""
        return self.launch(bucket.flat) if bucket.share == 1 else self._summed(bucket.flat)

    def launch_half(self, bucket: Bucket, second: bool) -> Flight:
        """One half of an average, the second after the first has ended; where there are no halves, the first is all of it."""
        both = self._halves(bucket)
        if both is None:
            return Landed() if second else self.launch_bucket(bucket)
        return self._executed(both[second], bucket.flat, second)

    def has_halves(self, bucket: Bucket) -> bool:
        """Whether the average of a bucket can be cut in two."""
        return self._halves(bucket) is not None

    def _halves(self, bucket: Bucket) -> tuple[Half, Half] | None:
        way = self.way(bucket.flat)
        return None if isinstance(way, str) or self.ranks == 1 else halves(schedule_of(way))

    def owe(self, device: torch.device, launch: Callable[[], None]) -> None:
        """This must be called, on all ranks, before anything else is launched by a schedule."""
        communicator(self._group, device).owe(launch)

    def way(self, tensor: torch.Tensor) -> Way:
        """Which way a tensor takes."""
        return self.choice.way(tensor.nbytes)

    def name_of(self, tensor: torch.Tensor) -> str:
        """The same in words."""
        return name_of(self.way(tensor))

    def named(self, choice: Choice) -> str:
        """A choice in words, with all else that says how tensors are averaged."""
        return str(choice)

    def _executed(self, what: Plan | Schedule | Half, tensor: torch.Tensor, second: bool = False) -> Flight:
        begun, us = monotonic(), communicator(self._group, tensor.device)
        op: ReduceOp = "sum" if second else "average"
        weights = None if second else self.weights
        return Executed(begun, us.launch(what, tensor, op, weights, self.timeout, wire=self.wire, owed=second))

    def launch_on_backend(self, tensor: torch.Tensor) -> Flight:
        """The backend's own all-reduce, whatever was chosen."""
        return self._summed(tensor.mul_(self._share))

    def _summed(self, tensor: torch.Tensor) -> Flight:
        begun, us = monotonic(), communicator(self._group, tensor.device)
        dtype = str(tensor.dtype).removeprefix("torch.")
        subject = f"average of {tensor.numel()} {dtype} by the backend's own all-reduce"
        start = partial(dist.all_reduce, tensor, group=self._group, async_op=True)
        running = launch_on_backend(us, subject, start, self.timeout)
        sent = round(2 * (self.ranks - 1) / self.ranks * tensor.nbytes)
        return _OnBackend(begun, running, sent, tensor.device)


class Landed:
    """Nothing to do: there is only one rank."""

    bytes_sent = 0

    def __init__(self) -> None:
        self.begun = self.ended = monotonic()

    def wait(self) -> None:
        """It is there."""

    def when_done(self, call: Callable[[], None]) -> None:
        call()


class Executed:
    """By a schedule."""

    def __init__(self, begun: float, running: Running) -> None:
        self.begun = begun
        self._running = running

    @property
    def ended(self) -> float:
        return self._running.execution.ended

    @property
    def bytes_sent(self) -> int:
        execution = self._running.execution
        return _elements_sent(execution.program) * execution.wire.itemsize

    def wait(self) -> None:
        self._running.wait()

    def when_done(self, call: Callable[[], None]) -> None:
        self._running.execution.when_done(call)


class _OnBackend:
    """By the backend itself."""

    def __init__(self, begun: float, running: Running, bytes_sent: int, device: torch.device) -> None:
        self.begun, self.bytes_sent = begun, bytes_sent
        self._running, self._device = running, device

    @property
    def ended(self) -> float:
        return self._running.execution.ended

    def wait(self) -> None:
        wait_for_backend(self._running, self._device)

    def when_done(self, call: Callable[[], None]) -> None:
        self._running.execution.when_done(call)


@lru_cache(maxsize=256)
def _elements_sent(program: Program) -> int:
    return sum(message.stop - message.start for message in program.outgoing)


def _share(weights: Sequence[float], rank: int, ranks: int) -> float:
    if len(weights) != ranks:
        raise InputError(f"{len(weights)} weights for {ranks} ranks: give one for each")
    total = math.fsum(weights)
    if any(not (math.isfinite(w) and w >= 0) for w in weights) or total <= 0:
        raise InputError(f"weights {list(weights)} are not possible: finite numbers, none negative, not all zero")
    return weights[rank] / total
