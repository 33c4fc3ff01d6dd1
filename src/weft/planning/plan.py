"""plan: the fastest schedule that is found for a network and a size, how far it is from the bound, and why it was chosen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path

from weft.bounds import Bound, bound
from weft.collectives import COLLECTIVES
from weft.collectives.forest import forest_of
from weft.errors import InputError
from weft.network import Network, full_mesh
from weft.ordering import pipelined
from weft.packing.pack import Packing, packings
from weft.planning.candidates import Candidate, Goal, Race, enter_forests, made
from weft.planning.costs import Costs
from weft.proof import verify
from weft.schedule import Schedule
from weft.simulation import simulate
from weft.units import format_bytes, format_seconds

SHARP, COARSE = 0.001, 0.005
"""How close a packing must come to its bound, for up to ``FEW_WORKERS`` and for more."""
FEW_WORKERS = 64
GOOD_ENOUGH = 0.99
"""A candidate this close to the bound ends the search."""
FEW, SHORT_PLAN = 2, 0.1
"""plans, and seconds of one that hosts may take longer for than links"""
SPARE_TIME = 0.2
"""The part of the time by which looking for spare plans may prolong planning."""
PROMISING = 1.2
"""Collectives whose busiest link takes at most so many times the bound are tried before forests are."""

SLOW = ("rat",)
QUICK = tuple(name for name in COLLECTIVES if name not in (*SLOW, "forest"))
"""Collectives whose schedules are made at once; the others' only if none of these reaches the bound."""

PROMISE = attrgetter("promise")


@dataclass(frozen=True, slots=True)
class Plan:
    """A chosen schedule, with its predicted time, the bound, and why it was chosen."""

    network: Network
    nbytes: int
    schedule: Schedule
    collective: str
    segments: int
    seconds: float
    bound: float
    why: str
    whole: Schedule
    """the schedule before it was cut into segments: its trees"""
    others: tuple[tuple[str, float], ...] = ()
    """what the other candidates would take, best first"""

    @property
    def digest(self) -> str:
        return self.schedule.digest

    def save(self, path: str | Path) -> None:
        """Write the plan file, atomically."""
        from weft.files import write_atomically
        from weft.planning.files import plan_text

        write_atomically(Path(path), plan_text(self))

    @staticmethod
    def load(path: str | Path) -> Plan:
        """Read a plan file; its schedule is proved again, and must have the digest that the file says."""
        from weft.planning.files import plan_from_file

        return plan_from_file(Path(path))


def plan(
    network: Network,
    nbytes: float,
    *,
    seconds: float = 10.0,
    costs: Costs | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Plan:
    """The best of all collectives and of packed forests, as simulated, found in about so many seconds.

    First come the collectives that may reach the bound, then forests if none of these did, then the others. ``costs`` are
    those of messages and of adding, where they are known; the bound does without them.
    """
    return shortlist(network, nbytes, 1, seconds=seconds, costs=costs, progress=progress)[0]


def shortlist(
    network: Network,
    nbytes: float,
    count: int,
    *,
    seconds: float = 10.0,
    costs: Costs | None = None,
    spare: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Plan]:
    """Up to so many plans that are predicted to be about equally fast, the best first, for whoever can measure them.

    Up to ``spare`` more are of other kinds and slower by prediction, for when the first ones do not keep theirs. Of more than a
    few that are short, one is a ring: on hosts that are busier than their links it does better than is predicted.
    """
    if not nbytes >= 1:
        raise InputError(f"a tensor of {nbytes} bytes is not possible: it must have at least one")
    if not seconds > 0:
        raise InputError(f"planning in {seconds:g} s is not possible: it must be more than 0")
    _compile()
    costs = costs or Costs()
    least = bound(network, nbytes)
    several = count > 1
    goal = Goal(len(COLLECTIVES) if several else 2, least.seconds / (GOOD_ENOUGH * costs.efficiency), several)
    entries = sorted(made(network, nbytes, QUICK), key=PROMISE)
    # Making the schedules takes what it takes; the time is for simulating them.
    begun = time.monotonic()
    race = Race(network, nbytes, begun + 0.5 * seconds, costs, goal)

    def enter(limit: float = math.inf) -> None:
        nonlocal entries
        now = [entry for entry in entries if entry.limit <= limit] or entries[: race.best is None]
        entries = [entry for entry in entries if entry not in now]
        for entry in now:
            if progress is not None:
                progress(len(race.candidates), len(COLLECTIVES))
            if not race.reached and (race.best is None or time.monotonic() < race.deadline):
                race.enter(entry.collective, entry.schedule, Schedule.sliced)

    enter(PROMISING * least.seconds)
    packing: Packing | None = None
    if not race.reached and len(network.active) > 1:
        entries = sorted([*entries, *made(network, nbytes, SLOW)], key=PROMISE)
        enter(PROMISING * least.seconds)
        race.deadline = begun + 0.9 * seconds
        gap = SHARP if len(network.active) <= FEW_WORKERS else COARSE
        found = packings(network, gap=gap, seconds=max(0.2, 0.4 * (race.deadline - time.monotonic())))
        packing = found[0]
        least = _better(least, packing, nbytes)
        goal.seconds = least.seconds / (GOOD_ENOUGH * costs.efficiency)
        if not race.reached:
            enter_forests(race, found)
    race.deadline = begun + seconds
    enter()
    chosen = race.shortlist(count)
    if count > FEW and not any(one.collective.startswith("ring") for one in chosen):
        ring = race.tried("ring-ordered", COLLECTIVES["ring-ordered"](network), Schedule.sliced, 1)
        if ring is not None and ring.seconds < SHORT_PLAN:
            chosen = [*chosen[: count - 1], ring]
    if spare:
        race.deadline = time.monotonic() + SPARE_TIME * seconds
        chosen += race.spares(chosen, spare)
    return [_plan_of(one, race, least, packing) for one in chosen]


def _plan_of(chosen: Candidate, race: Race, least: Bound, packing: Packing | None) -> Plan:
    assert chosen.result is not None
    verify(chosen.result.schedule)
    others = sorted(
        (
            (c.collective, c.seconds)
            for c in race.candidates
            if c.result and (c.collective, c.seconds) != (chosen.collective, chosen.seconds)
        ),
        key=lambda other: other[1],
    )
    left_out = [(c.collective, c.seconds) for c in race.candidates if c.result is None]
    why = _why(chosen, least, others, left_out, packing, race.nbytes)
    return Plan(
        race.network, int(race.nbytes), chosen.result.schedule, chosen.collective, chosen.segments, chosen.seconds,
        least.seconds, why, chosen.whole, tuple(others),
    )  # fmt: skip


@cache
def _compile() -> None:
    """Have everything compiled before the time is taken: on a new machine that alone takes longer than planning."""
    tiny = full_mesh(3)
    schedule = forest_of(tiny, packings(tiny.with_active(tiny.workers[:2]), tastes=(1.0,), seconds=1.0)[0])
    simulate(pipelined(schedule, tiny, 1e6, 1e-3, 2), tiny, 1e6)


def _better(least: Bound, packing: Packing, nbytes: float) -> Bound:
    """The bound of counting or that of the packing's prices, whichever says more."""
    if packing.bound * nbytes <= least.seconds * (1 + 1e-9):
        return least
    return Bound(packing.bound * nbytes, "no packing of reduce and broadcast trees into the links is faster")


def _why(
    chosen: Candidate,
    least: Bound,
    others: list[tuple[str, float]],
    left_out: list[tuple[str, float]],
    packing: Packing | None,
    nbytes: float,
) -> str:
    """The reasons in words: what, how close, what holds it up, and what came next."""
    assert chosen.result is not None
    pieces = f" in {chosen.segments} segments" if chosen.segments > 1 else ""
    share = least.seconds / chosen.seconds if chosen.seconds > 0 else 1.0
    lines = [
        f"{chosen.collective}{pieces} takes {format_seconds(chosen.seconds)} for {format_bytes(nbytes)}, {share:.1%} of the "
        f"bound of {format_seconds(least.seconds)} ({least.why}).",
        f"It is held up by {chosen.result.bottleneck}.",
    ]
    rivals = [(name, seconds) for name, seconds in others if name != chosen.collective]
    if rivals:
        name, seconds = rivals[0]
        difference = seconds / max(chosen.seconds, 1e-300) - 1
        lines.append(f"The runner-up is {name}, {abs(difference):.1%} {'slower' if difference >= 0 else 'faster'}.")
    elif left_out:
        name, seconds = min(left_out, key=lambda other: other[1])
        lines.append(f"The runner-up is {name}, whose busiest link alone takes {format_seconds(seconds)}.")
    if packing is not None:
        lines.append(
            f"The best packing of trees would take {format_seconds(packing.value * nbytes)} if pipelined without end "
            f"({packing.quality:.1%} of its own bound)."
        )
    return " ".join(lines)
