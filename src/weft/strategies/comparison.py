"""Which strategy, plan, overlap and compression make steps fastest on a network, by simulation; and what each trades for it.

The model is so many equal layers: a third of its computing is the forward pass. An average takes a + b * bytes, from two
simulations; how buckets overlap with computing is simulated with that (``weft.overlap``), so several buckets share the links and
gain nothing else. What comes out are predictions for choosing, not promises: real steps decide, see ``weft bench``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from weft.collectives import COLLECTIVES
from weft.errors import InputError, WeftError
from weft.groups import GroupTimes, consensus, serving_seconds
from weft.network import Network
from weft.overlap import CommunicationModel, GradientTensor, Workload, search, shared_link, step
from weft.planning import Costs, plan
from weft.schedule import Schedule
from weft.simulation import simulate
from weft.sparse import Compression, ErrorFeedback, converse, simulated
from weft.strategies.composing import TRIED, refusal
from weft.strategies.names import Options, strategy_of
from weft.strategies.strategy import Averaging

LAYERS = 32
FORWARD = 1 / 3
"""of a step's computing"""
SMALL = 1 / 32
"""of the bytes: the second point of a line"""
PROBE_ELEMENTS = (40_000, 160_000)
"""Sparse messages are simulated for so many elements, and extrapolated: at a density they grow with them."""
SETTLING = 6
"""calls before messages are those of a training"""
MOST_SPARSE = 64
"""workers for which sparse messages are simulated"""
GROUPED: tuple[tuple[str, str | None, int], ...] = (
    ("ds-sync", None, 1), ("ds-sync", "rat", 1), ("ds-sync", None, 4),
    ("gossip", None, 1), ("gossip", None, 4), ("local-sgd", None, 1),
)  # fmt: skip
"""strategies in groups: how a group averages (None: as is fastest), and in how many parts"""
AS_FAST = 1.03
"""An exact way that takes at most so many times the fastest is chosen instead."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to train, and what a step is predicted to take."""

    strategy: str
    plan: str
    overlap: str
    compress: str
    seconds: float
    """a step"""
    communication_seconds: float
    """of it, or hidden behind it: what is sent in a step, alone"""
    exact: bool
    """whether results are those of one worker with all the data"""
    trades: str
    """what it gives up"""

    @property
    def name(self) -> str:
        extras = [self.overlap] * (self.overlap != "none") + [self.compress] * (self.compress != "none")
        return ", ".join([self.strategy, self.plan, *extras])


@dataclass(frozen=True, slots=True)
class Comparison:
    """All ways, the fastest first; and what was refused."""

    network: str
    nbytes: float
    compute_seconds: float
    ways: tuple[Way, ...]
    refused: tuple[str, ...]

    @property
    def fastest(self) -> Way:
        return self.ways[0]

    @property
    def fastest_exact(self) -> Way:
        return next(way for way in self.ways if way.exact)

    @property
    def chosen(self) -> Way:
        """The fastest; an exact one where that is as fast."""
        exact = self.fastest_exact
        return exact if exact.seconds <= AS_FAST * self.fastest.seconds else self.fastest


def compared(
    network: Network,
    nbytes: float,
    *,
    compute_seconds: float = 0.1,
    density: float = 0.01,
    seconds: float = 10.0,
    options: Options | None = None,
    costs: Costs | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Every way that makes sense; about ``seconds`` are spent on planning."""
    if not compute_seconds > 0:
        raise InputError(f"computing for {compute_seconds} s is not possible: it must be more than 0")
    ground = _Ground(network, nbytes, compute_seconds, options or Options(), costs or Costs())
    kinds: list[Callable[[], Iterator[Way]]] = [
        lambda: ground.exact(seconds), lambda: ground.compressed(density), ground.grouped, ground.served,
    ]  # fmt: skip
    ways: list[Way] = []
    refused = [reason for tried in TRIED if (reason := refusal(*tried)) is not None]
    for number, kind in enumerate(kinds):
        if progress is not None:
            progress(number, len(kinds))
        try:
            ways += kind()
        except WeftError as error:
            refused.append(str(error))
    ways.sort(key=lambda way: (way.seconds, not way.exact))
    return Comparison(network.name, nbytes, compute_seconds, tuple(ways), tuple(refused))


def even_workload(nbytes: float, compute_seconds: float) -> Workload:
    """Equal layers."""
    elements = max(1, round(nbytes / 4 / LAYERS))
    forward, backward = FORWARD * compute_seconds / LAYERS, (1 - FORWARD) * compute_seconds / LAYERS
    return Workload("even", tuple(GradientTensor(f"layer {i}", elements, backward, forward) for i in range(LAYERS)))


@dataclass
class _Ground:
    """What all ways have in common."""

    network: Network
    nbytes: float
    compute_seconds: float
    options: Options
    costs: Costs

    def exact(self, seconds: float) -> Iterator[Way]:
        """All gradients, by the plan and by what others would do."""
        found = plan(self.network, self.nbytes, seconds=seconds, costs=self.costs)
        ways = {found.collective + f" in {found.segments}" * (found.segments > 1): found.schedule}
        ways |= {name: COLLECTIVES[name](self.network) for name in ("ring", "hierarchical")}
        for name, schedule in ways.items():
            label = {"ring": "ring (the backend's)"}.get(name, name)
            yield from self._overlapped("bsp", label, "none", self._line(schedule), True, "nothing")

    def compressed(self, density: float) -> Iterator[Way]:
        """Gradients of which less is sent."""
        whole = self._line(COLLECTIVES["ring-ordered"](self.network))
        rounded = shared_link(whole.a, whole.b / 2)
        yield from self._overlapped("bsp", "ring-ordered", "bf16", rounded, False, "gradients of 8 bits of precision")
        line = self._sparse_line(density)
        trades = f"{density:.3g} of every gradient in a step, the rest in later ones"
        yield from self._overlapped("bsp", "sparse messages", f"spardl {density:.3g}", line, False, trades)

    def grouped(self) -> Iterator[Way]:
        """Parameters, in groups."""
        for name, collective, parts in GROUPED:
            strategy = strategy_of(name, self.network, replace(self.options, parts=parts))
            assert isinstance(strategy, Averaging)
            try:
                line = self._pattern_line(strategy, collective)
            except WeftError:
                continue  # some groups are too small for it
            label = "a schedule a group" if collective is None else f"{collective} a group"
            less = "none" if parts == 1 else f"{parts} parts"
            yield from self._overlapped(name, label, less, line, False, str(consensus(strategy.pattern)))

    def served(self) -> Iterator[Way]:
        """Parameter servers."""
        sent = serving_seconds(self.network, self.nbytes, self.options.servers, costs=self.costs)
        slowest = max(sent.values())
        bounds = {
            "asp": "gradients of any age",
            "ssp": f"gradients of workers up to {self.options.staleness} steps apart",
        }
        for name, trades in bounds.items():
            yield Way(name, "servers", "none", "none", self.compute_seconds + slowest, slowest, False, trades)

    def _overlapped(
        self, strategy: str, label: str, compress: str, model: CommunicationModel, exact: bool, trades: str
    ) -> Iterator[Way]:
        work = even_workload(self.nbytes, self.compute_seconds)
        whole = model.seconds(work.nbytes)
        yield Way(strategy, label, "none", compress, self.compute_seconds + whole, whole, exact, trades)
        taken = step(work, search(work, model), model).seconds
        yield Way(strategy, label, "overlapped", compress, taken, whole, exact, trades)

    def _line(self, schedule: Schedule) -> CommunicationModel:
        return _line_of(
            [self.nbytes * SMALL, self.nbytes],
            [
                simulate(schedule, self.network, n, **asdict(self.costs)).seconds
                for n in (self.nbytes * SMALL, self.nbytes)
            ],
        )

    def _pattern_line(self, strategy: Averaging, collective: str | None) -> CommunicationModel:
        sizes = [self.nbytes * SMALL, self.nbytes]
        times = [GroupTimes(self.network, n / strategy.parts, None, self.costs, collective) for n in sizes]
        return _line_of(sizes, [one.pattern(strategy.pattern).seconds for one in times])

    def _sparse_line(self, density: float) -> CommunicationModel:
        workers = len(self.network.workers)
        if workers > MOST_SPARSE or self.network.inactive:
            raise InputError(
                f"spardl: sparse messages are simulated for up to {MOST_SPARSE} workers, all of them active"
            )
        compression = Compression("spardl", density)
        times = [self._sparse_seconds(compression, elements, workers) for elements in PROBE_ELEMENTS]
        return _line_of([4.0 * elements for elements in PROBE_ELEMENTS], times)

    def _sparse_seconds(self, compression: Compression, elements: int, workers: int) -> float:
        draw = np.random.default_rng(0)
        feedbacks = [ErrorFeedback(compression, rank, workers) for rank in range(workers)]
        for _ in range(SETTLING):
            talk = converse([one.part(draw.standard_normal(elements, dtype=np.float32)) for one in feedbacks])
        extras = {name: getattr(self.costs, name) for name in ("message_seconds", "wake_seconds", "efficiency")}
        return simulated(talk, self.network, **extras).seconds


def _line_of(sizes: Sequence[float], times: Sequence[float]) -> CommunicationModel:
    """a + b * bytes through two points."""
    b = max(0.0, (times[1] - times[0]) / (sizes[1] - sizes[0]))
    return shared_link(max(0.0, times[1] - b * sizes[1]), b)
