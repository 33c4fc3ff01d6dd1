"""DataParallel(compress=...): gradients that take fewer bytes on the wire, because only some are sent or all are rounded.

``"spardl"`` and its rivals send the strongest elements of every bucket; what is left over is kept by parameter, so buckets may
change. ``"fp16"`` and ``"bf16"`` send everything, rounded to half the bytes when it is sent and added up in float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
import torch.distributed as dist

from weft.collectives import ring, ring_ordered
from weft.errors import InputError
from weft.network import Network, full_mesh
from weft.schedule import Schedule
from weft.sparse.compilation import compile_method
from weft.sparse.compression import METHODS, Compression
from weft.sparse.feedback import Layout, ReduceOp
from weft.torch.buckets import Bucket
from weft.torch.choice import BACKEND, Choice, name_of
from weft.torch.flights import Averaging, Flight, Landed
from weft.torch.sparse import SparseState, SparseStatistics

if TYPE_CHECKING:
    from weft.torch.choice import Way

WIRES = {"fp16": torch.float16, "bf16": torch.bfloat16}
Compress: TypeAlias = "Compression | str | torch.dtype | None"
"""what people may give"""
SEGMENTED_FROM, SEGMENTS = 1_000_000, 4
"""From so many bytes on a ring is cut into segments."""


def compress_of(given: Compress) -> Compression | torch.dtype | None:
    """What a person means: a sparse method with its settings, or the type in which everything is sent."""
    if given is None or isinstance(given, Compression):
        return given
    if isinstance(given, torch.dtype):
        if given in WIRES.values():
            return given
    elif isinstance(given, str):
        if given in WIRES:
            return WIRES[given]
        if given.replace("_", "-") in METHODS:
            return Compression(given)
    known = ", ".join(map(repr, [*METHODS, *WIRES]))
    raise InputError(f"compress={given!r} is not known: it must be one of {known}, a Compression, or None")


def averaging_of(
    compress: Compression | torch.dtype | None,
    choice: Choice,
    group: dist.ProcessGroup | None,
    weights: Sequence[float] | None,
    timeout: float | None,
    network: Network | None,
) -> Averaging:
    """What averages buckets so."""
    if isinstance(compress, Compression):
        return SparseAveraging(compress, choice, group, weights, timeout, network)
    if compress is not None:
        return RoundedAveraging(compress, choice, group, weights, timeout, network)
    return Averaging(choice, group, weights, timeout)


class RoundedAveraging(Averaging):
    """Everything is sent, rounded; where no plan is, by a ring, because backends add up in the type that they send."""

    def __init__(
        self, wire: torch.dtype, choice: Choice, group: dist.ProcessGroup | None, weights: Sequence[float] | None,
        timeout: float | None, network: Network | None,
    ) -> None:  # fmt: skip
        super().__init__(choice, group, weights, timeout)
        self.wire = wire
        self._network = network

    def way(self, tensor: torch.Tensor) -> Way:
        found = self.choice.way(self._bytes(tensor))
        return self._ring(tensor) if found == BACKEND else found

    def launch_on_backend(self, tensor: torch.Tensor) -> Flight:
        """By the ring."""
        return Landed() if self.ranks == 1 else self._executed(self._ring(tensor), tensor)

    def name_of(self, tensor: torch.Tensor) -> str:
        return f"{name_of(self.way(tensor))}, {self._type}"

    def named(self, choice: Choice) -> str:
        return f"{'ring' if choice == Choice.of(BACKEND) else choice}, {self._type}"

    @property
    def _type(self) -> str:
        return str(self.wire).removeprefix("torch.")

    def _bytes(self, tensor: torch.Tensor) -> int:
        assert self.wire is not None
        return tensor.numel() * self.wire.itemsize

    def _ring(self, tensor: torch.Tensor) -> Schedule:
        return _ring(self.ranks, self._network, SEGMENTS if self._bytes(tensor) >= SEGMENTED_FROM else 1)


@lru_cache(maxsize=16)
def _ring(ranks: int, network: Network | None, segments: int) -> Schedule:
    """Along the network, if it is known and all of its workers are ranks."""
    if network is None or len(network.active) != ranks or network.inactive:
        return ring(full_mesh(ranks)).sliced(segments)
    return ring_ordered(network).sliced(segments)


class SparseAveraging(Averaging):
    """The strongest elements of every bucket are sent."""

    def __init__(
        self, compression: Compression, choice: Choice, group: dist.ProcessGroup | None,
        weights: Sequence[float] | None, timeout: float | None, network: Network | None,
    ) -> None:  # fmt: skip
        if choice != Choice.of(BACKEND):
            raise InputError(
                f"a plan says how whole gradients travel, and {compression.method} sends parts of them in its own way: leave the "
                "plan out, or compress by fp16 or bf16"
            )
        super().__init__(choice, group, weights, timeout)
        compression.check_workers(self.ranks)
        compile_method(compression)  # before ranks wait for each other
        self.compression, self._network = compression, network
        self._state: SparseState | None = None
        self._trials: SparseState | None = None
        self._noise = torch.empty(0)
        self._trying: Counter[int] = Counter()

    @property
    def state(self) -> SparseState:
        """What is kept; made when first asked for, by all ranks together: where teams are to be chosen, it measures."""
        if self._state is None:
            self._state = self._made(None)
        return self._state

    def _made(self, like: SparseState | None) -> SparseState:
        cost = None if like is None else like.cost
        return SparseState(self.compression, group=self._group, network=self._network, timeout=self.timeout, cost=cost)

    def share_on_arrival(self, bucket: Bucket) -> float:
        """What is left of gradients from earlier steps is added first."""
        del bucket
        return 1.0

    def launch_bucket(self, bucket: Bucket) -> Flight:
        """Start. Flags of unused parameters are not gradients: all of them are sent, by the backend."""
        running = self._launched(self.state, bucket.gradients, bucket.layout)
        if not len(bucket.flags) or self.ranks == 1:
            return running
        return _Both(running, super().launch_on_backend(bucket.flags))

    def launch(self, tensor: torch.Tensor) -> Flight:
        """For measuring: a tensor of noise instead of what is in it, and apart from all that is kept of gradients."""
        size = tensor.numel()
        if len(self._noise) < size:
            self._noise = torch.randn(size, generator=torch.Generator().manual_seed(self.rank))
        tensor.view(-1).copy_(self._noise[:size])
        if self._trials is None:
            self._trials = self._made(self.state)
        number = self._trying[size]
        self._trying[size] += 1
        running = self._launched(self._trials, tensor, [(f"{size}/{number}", size)])
        running.when_done(lambda: self._trying.subtract([size]))
        return running

    def launch_on_backend(self, tensor: torch.Tensor) -> Flight:
        """There is no other way."""
        return self.launch(tensor)

    def name_of(self, tensor: torch.Tensor) -> str:
        del tensor
        return str(self.compression)

    def named(self, choice: Choice) -> str:
        del choice
        return str(self.compression)

    def _launched(self, state: SparseState, tensor: torch.Tensor, layout: Layout) -> Flight:
        op: ReduceOp = "average"
        if self.weights is not None:
            tensor.mul_(self._share)
            op = "sum"
        return state.launch(tensor, layout, op)

    def take_statistics(self) -> SparseStatistics:
        return self.state.take_statistics()

    def state_dict(self) -> dict[str, Any]:
        return self.state.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.state.load_state_dict(state)


class _Both:
    """Two on their way."""

    def __init__(self, one: Flight, other: Flight) -> None:
        self._flights = (one, other)
        self.begun = one.begun

    @property
    def ended(self) -> float:
        ends = [flight.ended for flight in self._flights]
        return max(ends) if all(ends) else 0.0

    @property
    def bytes_sent(self) -> int:
        return sum(flight.bytes_sent for flight in self._flights)

    def wait(self) -> None:
        for flight in reversed(self._flights):
            flight.wait()

    def when_done(self, call: Callable[[], None]) -> None:
        one, other = self._flights
        one.when_done(lambda: other.when_done(call))


def flat_for_planning(flat: torch.Tensor, compress: Compression | torch.dtype | None) -> torch.Tensor:
    """A tensor of as many bytes as will travel."""
    return flat.to(compress) if isinstance(compress, torch.dtype) and flat.element_size() > compress.itemsize else flat
