"""Conditions: what disturbs a network for a while."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from weft.errors import InputError
from weft.network import Network
from weft.simulation.engine import (
    BACKGROUND_STARTS,
    BACKGROUND_STOPS,
    LINK_CHANGES,
    WORKER_PAUSES,
    WORKER_RESUMES,
    Disturbances,
)

FOREVER = math.inf


@dataclass(frozen=True, slots=True)
class Background:
    """Flows of somebody else from one node to another: ``nbytes`` in all, or endless until ``end``."""

    source: str
    destination: str
    start: float = 0.0
    end: float = FOREVER
    nbytes: float = FOREVER
    flows: int = 1


@dataclass(frozen=True, slots=True)
class Pause:
    """A worker that sends nothing for a while; what others send to it still arrives."""

    worker: str
    start: float = 0.0
    end: float = FOREVER


@dataclass(frozen=True, slots=True)
class Slow:
    """A link that has only ``factor`` of its bandwidth for a while; 0 stops it."""

    link: str
    factor: float
    start: float = 0.0
    end: float = FOREVER


Condition = Background | Pause | Slow


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that disturbs a network, each for its time."""

    conditions: tuple[Condition, ...] = ()

    def __init__(self, conditions: Iterable[Condition] = ()) -> None:
        object.__setattr__(self, "conditions", tuple(conditions))
        for condition in self.conditions:
            _check(condition)

    @property
    def backgrounds(self) -> tuple[Background, ...]:
        return tuple(x for x in self.conditions if isinstance(x, Background))

    def events(self, network: Network, channels: int) -> Disturbances:
        """The conditions as timed events; background flow ``i`` is flow ``channels + i`` of the simulator."""
        rows: list[tuple[float, int, int, float]] = []
        slows: dict[int, list[Slow]] = {}
        background = channels
        for condition in self.conditions:
            if isinstance(condition, Pause):
                rank = _rank(network, condition.worker)
                rows += [(condition.start, WORKER_PAUSES, rank, 0.0), (condition.end, WORKER_RESUMES, rank, 0.0)]
            elif isinstance(condition, Slow):
                slows.setdefault(network.link_number(condition.link), []).append(condition)
            else:
                rows.append((condition.start, BACKGROUND_STARTS, background, condition.nbytes))
                rows.append((condition.end, BACKGROUND_STOPS, background, 0.0))
                background += 1
        for link, changes in slows.items():
            for time in {at for change in changes for at in (change.start, change.end)}:
                factor = math.prod(change.factor for change in changes if change.start <= time < change.end)
                rows.append((time, LINK_CHANGES, link, network.links[link].bandwidth * factor))
        rows = sorted(row for row in rows if row[0] < FOREVER)
        return Disturbances(
            np.array([row[0] for row in rows], dtype=np.float64),
            np.array([row[1] for row in rows], dtype=np.int8),
            np.array([row[2] for row in rows], dtype=np.int32),
            np.array([row[3] for row in rows], dtype=np.float64),
        )


def _rank(network: Network, worker: str) -> int:
    number = network.number(worker)
    if number >= len(network.workers):
        raise InputError(f"{worker!r} is a switch: only a worker can pause")
    return number


def _check(condition: Condition) -> None:
    if not 0 <= condition.start < condition.end:
        raise InputError(f"{condition} is not possible: it must start at 0 or later and end after its start")
    if isinstance(condition, Slow) and not 0 <= condition.factor < FOREVER:
        raise InputError(f"{condition} is not possible: the factor must be 0 or more")
    if isinstance(condition, Background):
        if condition.flows < 1 or not condition.nbytes > 0:
            raise InputError(f"{condition} is not possible: it needs at least one flow and one byte")
        if condition.source == condition.destination:
            raise InputError(f"{condition} is not possible: a flow needs two different nodes")


def rotating_pauses(network: Network, paused: int, every: float, until: float, seed: int = 0) -> Conditions:
    """``paused`` workers at a time send nothing; every so many seconds others are drawn."""
    if not 0 <= paused <= len(network.active):
        raise InputError(f"{paused} of {len(network.active)} workers cannot pause")
    if not every > 0:
        raise InputError(f"pauses of {every:g} s are not possible: it must be more than 0")
    draw = np.random.default_rng(seed)
    pauses: list[Condition] = []
    for turn in range(math.ceil(until / every)):
        for rank in draw.choice(network.active, size=paused, replace=False):
            pauses.append(Pause(network.workers[rank], turn * every, (turn + 1) * every))
    return Conditions(pauses)
