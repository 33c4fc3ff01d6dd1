"""Near-optimal tree packing (Zhang, Wu and Li 2021), Section VI: Figures 4 to 7.

The paper prints no table. What it says of its figures are seven numbers (``PAPER``), set beside ours. Its model is analytic: a
tree moves data at the rate of its slowest link, pipelined without end; a time is the tensor over the sum of rates. So is ours:

- a time of ours is the value of a packing, whose bound is proved with it;
- a time of a baseline is what its busiest link needs for all its bytes. No order of its transfers is faster, so no baseline
  looks slower than it is.

Both are also simulated, transfer by transfer. What the paper leaves open and was chosen here is said where it is chosen, and
``weft.reproductions.packing_readings`` has what the other choices give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from weft.collectives import blink, double_binary_tree, parameter_server, plink, ring
from weft.collectives.forest import forest_of
from weft.network import Network
from weft.ordering import pipelined
from weft.packing.master import Formulation
from weft.packing.pack import Packing, pack
from weft.planning.candidates import busiest_link
from weft.proof import verify
from weft.reproductions.findings import Progress, silent
from weft.reproductions.gpu_networks import first_of_each, gpu_mesh, with_active
from weft.schedule import Schedule
from weft.simulation import simulate

NBYTES = 1.33e9
"""BERT-LARGE, as the paper gives it."""
GBITS = (10, 25, 40, 100)
SIZES = ((2, 4), (4, 4), (8, 4), (2, 8), (4, 8), (8, 8))
"""machines and GPUs in each"""
_FEW = tuple(counts for counts in combinations_with_replacement((4, 3, 2, 1, 0), 4) if 2 <= sum(counts) <= 4)
COUNTS = (*_FEW[::-1], (2, 2, 2, 2), (4, 2, 1, 1), (4, 4, 0, 0), (4, 4, 4, 4))
"""Active GPUs of each of four machines. The paper does not say which it shows: here are all ways to place two to four workers,
and four more. GPUs of a machine are alike, and so are machines, so the order does not matter."""
LATENCY = 5e-6
"""of every link, in the second simulation; the paper has none"""
MOST_TRANSFERS = 260_000
"""A forest is simulated in as many segments as keep it below this, and not at all if these are fewer than ``FEWEST``."""
FEWEST_SEGMENTS, MOST_SEGMENTS = 4, 128
GAP = 0.001
PATIENCE = 300.0
"""seconds for a packing; none needs more than a few, but a busy machine must not change what is printed"""

PAPER = {
    "all_active_10": 2.9, "all_active_25": 2.1, "all_active_40": 1.2, "all_active_100_over_ps": 1.0,
    "partly_active_most": 18.3, "figure_6_least": 1.44, "overlap_most": 0.30,
}  # fmt: skip

BASELINES: dict[str, Callable[[Network], Schedule]] = {
    "Blink": blink,
    "PLink": plink,
    "ring": ring,
    "double tree": double_binary_tree,
    "PS": parameter_server,
}


@dataclass(frozen=True, slots=True)
class Simulated:
    """Our forest and the best baseline, run transfer by transfer, in seconds."""

    segments: int
    ours: float
    baseline: float
    ours_latency: float
    """the same with ``LATENCY`` on every link"""
    baseline_latency: float


@dataclass(frozen=True, slots=True)
class Row:
    """One setting: the seconds of each scheme, as the paper's model has them."""

    name: str
    gbit: int
    workers: int
    baselines: dict[str, float]
    separate: float
    """formulation (3): first all reductions, then all broadcasts"""
    overlapped: float
    """formulation (8), as it is printed"""
    pipelined: float
    """overlap with stages of any length"""
    bound: float
    """no packing of trees takes less"""
    quality: float
    """the worst bound over value of the three packings"""
    simulated: Simulated | None

    @property
    def best(self) -> float:
        """What the best baseline takes."""
        return min(self.baselines.values())

    @property
    def ratio(self) -> float:
        """How many times longer the best baseline takes than we do."""
        return self.best / self.pipelined

    @property
    def most(self) -> float:
        """No packing of trees makes the ratio larger."""
        return self.best / self.bound

    @property
    def overlap_gain(self) -> float:
        """The part of the time that overlapping saves."""
        return 1 - self.pipelined / self.separate


def figure_4(progress: Progress = silent) -> list[Row]:
    """All workers are active, in machines of 4 and 8 GPUs."""
    settings = [(machines, gpus, gbit) for machines, gpus in SIZES for gbit in GBITS]
    rows: list[Row] = []
    for machines, gpus, gbit in settings:
        progress(len(rows), len(settings))
        active = first_of_each([gpus] * machines)
        rows.append(row_of(f"{machines}x{gpus}", gbit, machines, gpus, active))
    return rows


def figure_5(progress: Progress = silent) -> list[Row]:
    """Some workers of four machines with four GPUs are active; Figure 7 is about the same settings."""
    settings = [(counts, gbit) for counts in COUNTS for gbit in GBITS]
    rows: list[Row] = []
    for counts, gbit in settings:
        progress(len(rows), len(settings))
        rows.append(row_of(_written(counts), gbit, 4, 4, first_of_each(counts)))
    return rows


def row_of(name: str, gbit: int, machines: int, gpus: int, active: Sequence[Sequence[int]]) -> Row:
    """All that is computed of one setting."""
    network = with_active(gpu_mesh(machines, gpus, gbit), active)
    later = with_active(gpu_mesh(machines, gpus, gbit, latency=LATENCY), active)
    packings = [packed(network, formulation) for formulation in ("separate", "overlapped", "pipelined")]
    schedules = {name: collective(network) for name, collective in BASELINES.items()}
    baselines = {name: busiest_link(schedule, network, NBYTES) for name, schedule in schedules.items()}
    separate, overlapped, piped = (packing.value * NBYTES for packing in packings)
    simulated = _simulated(network, later, packings[2], schedules, baselines)
    return Row(
        name, gbit, len(network.active), baselines, separate, overlapped, piped, float(packings[2].bound * NBYTES),
        float(min(packing.quality for packing in packings)), simulated,
    )  # fmt: skip


def packed(network: Network, formulation: Formulation) -> Packing:
    """A packing of the network."""
    return pack(network, formulation, gap=GAP, seconds=PATIENCE)


def _simulated(
    network: Network, later: Network, packing: Packing, schedules: dict[str, Schedule], limits: dict[str, float]
) -> Simulated | None:
    """Our forest against the baseline that simulates fastest; ``limits`` are what their busiest links take."""
    forest = forest_of(network, packing)
    cut = executable(forest, network, packing.value * NBYTES)
    if cut is None:
        return None
    segments, ours = cut
    verify(ours)
    rivals = _rivals(schedules, limits, network)
    baseline, fastest = min(rivals, key=lambda rival: rival[0])
    return Simulated(
        segments,
        simulate(ours, network, NBYTES).seconds,
        baseline,
        simulate(ours, later, NBYTES).seconds,
        simulate(fastest, later, NBYTES).seconds,
    )


def executable(forest: Schedule, network: Network, seconds: float) -> tuple[int, Schedule] | None:
    """The forest in as many segments as pay and may be simulated, and their number; nothing if these are too few."""
    if len(forest) <= MOST_TRANSFERS and simulate(forest, network, NBYTES).seconds <= seconds * (1 + GAP):
        return 1, forest
    segments = MOST_SEGMENTS
    while segments >= FEWEST_SEGMENTS and segments * len(forest) > MOST_TRANSFERS:
        segments //= 2
    if segments < FEWEST_SEGMENTS:
        return None
    return segments, pipelined(forest, network, NBYTES, seconds, segments)


def _rivals(schedules: dict[str, Schedule], limits: dict[str, float], network: Network) -> list[tuple[float, Schedule]]:
    """Baselines, whole and in slices, with their simulated times; those that cannot be the fastest are left out."""
    rivals: list[tuple[float, Schedule]] = []
    for name in sorted(schedules, key=lambda name: limits[name]):
        if rivals and limits[name] >= min(seconds for seconds, _ in rivals):
            continue
        schedule = schedules[name]
        slices = max(1, min(MOST_SEGMENTS, MOST_TRANSFERS // len(schedule)))
        for candidate in (schedule, schedule.sliced(slices)):
            rivals.append((simulate(candidate, network, NBYTES).seconds, candidate))
    return rivals


def _written(counts: Sequence[int]) -> str:
    return "(" + ",".join(map(str, counts)) + ")"
