"""Candidates for a plan: every collective and packed forests, each in as many segments as pay.

A candidate is simulated only if it can win: its busiest link alone already takes some time, and if that is more than the
best found so far, the candidate is left out. Segments are doubled as long as that makes it faster.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from weft.collectives import COLLECTIVES
from weft.collectives.forest import forest_of
from weft.errors import SimulationError
from weft.network import Network
from weft.ordering import pipelined
from weft.packing.fair import fair_packings
from weft.packing.pack import Packing
from weft.packing.pieces import pieces_of
from weft.planning.costs import Costs
from weft.proof import verify
from weft.schedule import Schedule
from weft.simulation import Simulation, link_loads, simulate

MOST_TRANSFERS = 1_200_000
"""No schedule with more transfers is tried in segments."""
WORTH = 0.995
"""More segments must make it at least that much faster to be pursued further."""
TURN = 0.25
"""The part of the time that is left which one schedule may take, beyond its first segments."""
FEW_SEGMENTS = 16
"""of forests, with which all are compared at first"""
CLOSE = 1.15
"""Predictions are about so good: whatever takes at most so many times as long as the fastest may be the fastest."""
FAR = 1.5
"""Whatever is predicted to take more times as long is out of the race, even if predictions turn out to be bad."""
SPARE_SEGMENTS = (4, 1)
"""of a spare that was not simulated in the race"""

_SAMPLES = 256
_SEGMENTS_IN_MIND = 4
_ABOUT = 0.02


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule that was simulated, or one that was left out because its busiest link alone takes longer."""

    collective: str
    segments: int
    seconds: float
    """predicted; of one that was left out, what its busiest link takes"""
    result: Simulation | None
    whole: Schedule
    """before it was cut into segments"""


@dataclass(slots=True)
class Goal:
    """When a race may end before its time: so many schedules have been tried, and the best takes at most so long.

    Who wants several plans of about the same time, and not only the best, is ``thorough``: fast ones are tried in more segments.
    """

    schedules: int
    seconds: float
    thorough: bool = False


Cut = Callable[[Schedule, int], Schedule]


class Race:
    """The candidates of one plan, and the best so far."""

    def __init__(self, network: Network, nbytes: float, deadline: float, costs: Costs, goal: Goal) -> None:
        self.network = network
        self.nbytes = nbytes
        self.costs = costs
        self.deadline = deadline
        self.goal = goal
        self.candidates: list[Candidate] = []
        """one a schedule, in as many segments as paid"""
        self.close: list[Candidate] = []
        """all that were simulated and are not far behind, whatever their segments"""
        self.best: Candidate | None = None

    @property
    def fast_enough(self) -> bool:
        return self.best is not None and self.best.seconds <= self.goal.seconds

    @property
    def reached(self) -> bool:
        """Whether there is nothing to be gained by going on."""
        return self.fast_enough and len(self.candidates) >= self.goal.schedules

    def enter(self, name: str, schedule: Schedule, cut: Cut, first: int = 1) -> Candidate | None:
        """Simulate a schedule in more and more segments, as long as that pays and there is time; the best of it."""
        limit = busiest_link(schedule, self.network, self.nbytes) / self.costs.efficiency
        if self.best is not None and limit >= self.best.seconds:
            self.candidates.append(Candidate(name, 1, limit, None, schedule))
            return None
        own: Candidate | None = None
        segments = first
        begun = before = time.monotonic()
        while True:
            found = self.tried(name, schedule, cut, segments, own)
            if found is None:
                break
            paid = own is None or found.seconds < WORTH * own.seconds
            if own is None or found.seconds < own.seconds:
                own = found
            # One step that does not pay may hide one that does, right at the start of a pipeline.
            done = own.seconds <= self.goal.seconds and not self.goal.thorough
            if done or (not paid and segments > 2 * first):
                break
            segments *= 2
            # Twice the segments take at least twice as long, and other schedules want their turn.
            now = time.monotonic()
            if len(schedule) * segments > MOST_TRANSFERS or 3 * now - 2 * before > begun + TURN * (
                self.deadline - begun
            ):
                break
            before = now
        self.candidates.append(own or Candidate(name, 1, limit, None, schedule))
        return own

    def tried(
        self, name: str, schedule: Schedule, cut: Cut, segments: int, own: Candidate | None = None
    ) -> Candidate | None:
        """A schedule in so many segments, simulated; nothing if it falls behind or there is no time."""
        fine = cut(schedule, segments)
        verify(fine)
        result = self.simulated(fine, own)
        if result is None:
            return None
        found = Candidate(name, segments, result.seconds, result, schedule)
        self.keep(found)
        if self.best is None or found.seconds < self.best.seconds:
            self.best = found
        return found

    def keep(self, found: Candidate) -> None:
        """Remember it if it is close to the fastest, and forget those that are not any more."""
        least = min([found.seconds, *(c.seconds for c in self.close)])
        self.close = [c for c in (*self.close, found) if c.seconds <= CLOSE * least]

    def shortlist(self, count: int) -> list[Candidate]:
        """The most promising, best first: of each collective its two best numbers of segments at most."""
        chosen: dict[str, Candidate] = {}
        for candidate in sorted(self.close, key=lambda c: c.seconds):
            assert candidate.result is not None
            alike = sum(c.collective == candidate.collective for c in chosen.values())
            if len(chosen) < count and alike < 2:
                chosen.setdefault(candidate.result.schedule.digest, candidate)
        return list(chosen.values())

    def spares(self, chosen: Sequence[Candidate], count: int) -> list[Candidate]:
        """The best of each collective that none of these is, if it is not too far behind, the most promising first."""
        kinds = {candidate.collective for candidate in chosen}
        close = [c for c in self.candidates if c.seconds <= FAR * chosen[0].seconds and c.collective not in kinds]
        found = [one for c in close for one in ((c,) if c.result else self.simulated_late(c))]
        best: dict[str, Candidate] = {}
        for one in sorted(found, key=lambda c: c.seconds):
            assert one.result is not None
            if one.seconds <= FAR * chosen[0].seconds and one.collective not in kinds:
                kinds.add(one.collective)
                best.setdefault(one.result.schedule.digest, one)  # one schedule may have several names
        return list(best.values())[:count]

    def simulated_late(self, left_out: Candidate) -> Iterable[Candidate]:
        """One that cannot be the fastest by predictions, simulated nevertheless."""
        some = (self.tried(left_out.collective, left_out.whole, Schedule.sliced, n) for n in SPARE_SEGMENTS)
        return (found for found in some if found is not None)

    def simulated(self, schedule: Schedule, own: Candidate | None) -> Simulation | None:
        """The result, unless it is far behind or takes too long; there is always a first one."""
        far = FAR * min(c.seconds for c in (self.best, own) if c) if self.best or own else math.inf

        def stop(now: float) -> bool:
            return self.best is not None and (now > far or time.monotonic() > self.deadline)

        try:
            return simulate(schedule, self.network, self.nbytes, stop=stop, **asdict(self.costs))
        except SimulationError:
            return None


def busiest_link(schedule: Schedule, network: Network, nbytes: float) -> float:
    """How long the busiest link needs for its bytes: no order of the transfers is faster."""
    return float((link_loads(schedule, network, nbytes) / network.graph.bandwidth).max(initial=0.0))


@dataclass(frozen=True, slots=True)
class Entry:
    """A collective's schedule, and what can be said of it without simulating it."""

    collective: str
    schedule: Schedule
    limit: float
    """the time of its busiest link"""
    chain: float
    """about what its steps take, one after the other, in a few segments"""

    @property
    def promise(self) -> tuple[int, int]:
        """Small is promising. Of those that may take about as long, the one that is quicker to simulate comes first."""
        return round(math.log(max(self.limit, self.chain, 1e-300)) / _ABOUT), len(self.schedule)


def made(network: Network, nbytes: float, names: Iterable[str]) -> list[Entry]:
    """The schedules of these collectives."""
    schedules = [(name, COLLECTIVES[name](network)) for name in names]
    return [Entry(n, s, busiest_link(s, network, nbytes), _chain(s, network, nbytes)) for n, s in schedules]


def _chain(schedule: Schedule, network: Network, nbytes: float) -> float:
    """As many steps as the longest chain has, each as long as some transfers are in the mean."""
    some = np.arange(0, len(schedule), max(1, len(schedule) // _SAMPLES))
    if not len(some):
        return 0.0
    routes = network.routes(schedule.source[some], schedule.destination[some])
    rates = np.minimum.reduceat(network.graph.bandwidth[routes.links], routes.start[:-1])
    sizes = schedule.transfer_bytes(nbytes)[some]
    return schedule.depth * float((routes.latency + sizes / (_SEGMENTS_IN_MIND * rates)).mean())


def enter_forests(race: Race, found: Sequence[Packing]) -> None:
    """Packings as forests, ordered by when transfers can happen, and the best of them also by steps.

    Those made for fair sharing are there too: the others are seldom better where links are shared. All are tried in few
    segments, the fastest third of them in twice as many, and so on, as long as that pays.
    """
    fair = fair_packings(race.network, found, seconds=max(0.1, 0.5 * (race.deadline - time.monotonic())))
    size = 2 * len(race.network.active) * FEW_SEGMENTS
    forests = [
        _Forest(race, packing)
        for packing in [*fair, *found]
        if len(pieces_of(packing)) * size <= MOST_TRANSFERS
        and (race.best is None or packing.value * race.nbytes < race.best.seconds)
    ]
    half = 0.5 * (time.monotonic() + race.deadline)
    segments, least, ends = FEW_SEGMENTS, math.inf, half
    while forests:
        before = least
        tried = [forest for forest in forests if forest.tried(segments, ends)]
        forests = sorted(tried, key=lambda forest: forest.seconds)[: -(-len(tried) // 3)]
        least = min((forest.seconds for forest in forests), default=math.inf)
        if race.fast_enough or least > WORTH * before:
            break
        segments, ends = 2 * segments, race.deadline
    if race.best is not None and race.best.collective == "forest":
        race.candidates.append(race.best)
        if not race.fast_enough:
            race.enter("forest", race.best.whole, Schedule.segmented, first=4)


class _Forest:
    """A packing in the race."""

    def __init__(self, race: Race, packing: Packing) -> None:
        self.race, self.packing = race, packing
        self.schedule: Schedule | None = None
        self.seconds = math.inf

    def tried(self, segments: int, ends: float) -> bool:
        """Whether it was simulated in so many segments; not after the time is over, and not when another is fast enough."""
        race = self.race
        if race.fast_enough or time.monotonic() > ends:
            return False
        if self.schedule is None:
            self.schedule = forest_of(race.network, self.packing)
        if len(self.schedule) * segments > MOST_TRANSFERS:
            return False
        found = race.tried("forest", self.schedule, self.pipeline, segments)
        if found is not None:
            self.seconds = found.seconds
        return found is not None

    def pipeline(self, whole: Schedule, segments: int) -> Schedule:
        race = self.race
        return pipelined(whole, race.network, race.nbytes, max(self.packing.value * race.nbytes, 1e-12), segments)
