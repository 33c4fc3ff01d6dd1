"""What compressed all-reduces take, measured against the backend's own in one run, selecting and messages apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import torch
import torch.distributed as dist

from weft.network import Network
from weft.runtime import together
from weft.runtime.turns import slowest, timed
from weft.sparse.compression import Compression
from weft.torch.choice import BACKEND, Choice
from weft.torch.compressing import RoundedAveraging, compress_of
from weft.torch.sparse import SparseState, SparseStatistics, sparse_all_reduce

WARM_UP = 3
"""Turns in which residuals grow and caches are filled; they do not count."""
IN_A_ROW = 3
"""Turns that count, after one that does not: connections that have been idle start slowly."""
SHIFT = 97

Work = Callable[[torch.Tensor], SparseStatistics | None]
"""Averages a tensor; what it has spent, if it can tell."""


@dataclass(frozen=True, slots=True)
class CompressMeasured:
    """One way for one size. Seconds are medians: of the slowest rank, and for its two parts of the ranks' mean."""

    name: str
    nbytes: int
    seconds: float
    selecting_seconds: float | None
    """computing: selecting, adding up, putting into bytes; None where it is not apart"""
    wire_seconds: float | None
    """waiting for messages, and thus for others that compute"""
    bytes_sent: int | None
    """by a rank in a call, the mean"""
    times: tuple[float, ...]


def compressed_work(
    name: str, density: float, group: dist.ProcessGroup | None = None, network: Network | None = None
) -> Work:
    """An average by a method's name. All ranks make theirs together."""
    meant = compress_of(name)
    if isinstance(meant, Compression):
        return sparse_work(Compression(meant.method, density), group, network)
    assert meant is not None
    rounded = RoundedAveraging(meant, Choice.of(BACKEND), group, None, None, network)

    def work(tensor: torch.Tensor) -> SparseStatistics | None:
        flight = rounded.launch(tensor)
        flight.wait()
        return SparseStatistics(1, flight.bytes_sent, 0.0, 0.0)

    return work


def sparse_work(
    compression: Compression, group: dist.ProcessGroup | None = None, network: Network | None = None
) -> Work:
    state = SparseState(compression, group=group, network=network)

    def work(tensor: torch.Tensor) -> SparseStatistics | None:
        sparse_all_reduce(tensor, state)
        return state.take_statistics()

    return work


def backend_work(group: dist.ProcessGroup | None = None) -> Work:
    """The backend's own all-reduce, as it is without us."""

    def work(tensor: torch.Tensor) -> SparseStatistics | None:
        dist.all_reduce(tensor, group=group)
        return None

    return work


def noise(elements: int, rank: int) -> Callable[[int, torch.Tensor], None]:
    """Fills tensors with random numbers, other ones in every call."""
    numbers = torch.randn(elements + 64 * SHIFT, generator=torch.Generator().manual_seed(rank))

    def fill(call: int, tensor: torch.Tensor) -> None:
        start = SHIFT * (call % 64)
        tensor.copy_(numbers[start : start + elements])

    return fill


def measured_compression(
    ways: Mapping[str, Work],
    tensor: torch.Tensor,
    fill: Callable[[int, torch.Tensor], None],
    repeat: int,
    group: dist.ProcessGroup | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[CompressMeasured]:
    """Time all ways in turn, on every rank alike; ``fill`` makes the gradient of each call, which is not timed."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    spent: dict[str, list[SparseStatistics]] = {name: [] for name in ways}
    calls = dict.fromkeys(ways, 0)

    def turn(name: str, counts: bool) -> None:
        fill(calls[name], tensor)
        calls[name] += 1
        found: list[SparseStatistics | None] = []
        seconds = timed(lambda: found.append(ways[name](tensor)), group)
        if counts:
            times[name].append(seconds)
            spent[name] += [one for one in found if one is not None]

    for name in ways:
        for _ in range(WARM_UP):
            turn(name, counts=False)
    while len(times[next(iter(ways))]) < repeat:
        done = len(times[next(iter(ways))])
        if progress is not None:
            progress(done, repeat)
        for name in ways:
            for number in range(1 + min(IN_A_ROW, repeat - done)):
                turn(name, counts=number > 0)
    return [_summed_up(name, tensor.nbytes, times[name], spent[name], group) for name in ways]


def _summed_up(
    name: str, nbytes: int, times: list[float], spent: list[SparseStatistics], group: dist.ProcessGroup | None
) -> CompressMeasured:
    longest = tuple(slowest(times, group))
    if not spent:
        return CompressMeasured(name, nbytes, median(longest), None, None, None, longest)
    own = [median(s.computing_seconds for s in spent), median(s.waiting_seconds for s in spent)]
    sums = torch.tensor([*own, fmean(s.bytes_sent for s in spent)], dtype=torch.float64)
    together.all_reduce(sums, group=group)
    computing, waiting, sent = (sums / dist.get_world_size(group)).tolist()
    apart = computing > 0
    return CompressMeasured(
        name, nbytes, median(longest), computing if apart else None, waiting if apart else None, round(sent), longest
    )


def measured_methods(
    names: Sequence[str], density: float, nbytes: int, repeat: int, network: Network | None = None
) -> list[CompressMeasured]:
    """The backend's own all-reduce and these methods, for one size, on noise. All ranks call it together."""
    elements = max(1, nbytes // 4)
    ways = {BACKEND: backend_work()} | {name: compressed_work(name, density, network=network) for name in names}
    return measured_compression(ways, torch.empty(elements), noise(elements, dist.get_rank()), repeat)
