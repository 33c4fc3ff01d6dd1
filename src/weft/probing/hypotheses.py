"""A hypothesis: which workers are in a rack with a narrow uplink, and all rates; and how likely it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.probing.fitting import LESS_ALIKE, fit_hosts
from weft.probing.likelihood import misfit
from weft.probing.rounds import Floats, Ints, Measured
from weft.probing.sharing import fair_rates

Rack = frozenset[int]
Racks = frozenset[Rack]
"""Only racks whose uplink can be felt. All other workers are taken to be joined without one."""

PER_RACK, PER_MEMBER = 18.0, 0.5
"""What a rack and each worker in one must gain in fit, so that chance does not make them."""
NARROW, PER_WIDE_RACK = 0.85, 12.0
"""An uplink that carries more than this part of its workers is hardly one; it must gain so much more."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Racks, and rates in bytes per second."""

    racks: tuple[tuple[int, ...], ...]
    hosts: Floats
    """by worker"""
    uplinks: Floats
    """by rack"""
    score: float = np.inf
    """misfit and penalties: the lower, the likelier"""

    @property
    def labels(self) -> Ints:
        """By worker, the number of its rack; those without get the last number, whose uplink is infinite."""
        found = np.full(len(self.hosts), len(self.racks), dtype=np.int64)
        for number, rack in enumerate(self.racks):
            found[list(rack)] = number
        return found

    @property
    def all_uplinks(self) -> Floats:
        return np.append(self.uplinks, np.inf)

    @property
    def key(self) -> Racks:
        return frozenset(map(frozenset, self.racks))

    @property
    def free(self) -> tuple[int, ...]:
        """The workers that are in no rack."""
        inside = {rank for rack in self.racks for rank in rack}
        return tuple(rank for rank in range(len(self.hosts)) if rank not in inside)

    @property
    def regions(self) -> tuple[tuple[int, ...], ...]:
        """All workers, divided: the racks, and those that are in none."""
        return tuple(sorted([*self.racks, self.free] if self.free else self.racks))

    @property
    def typical_uplink(self) -> float:
        return float(np.median(self.uplinks)) if self.racks else float(np.median(self.hosts))

    def expected(self, to: Ints) -> tuple[Floats, Ints]:
        """What the streams of a round should reach, by source, and which link limits each."""
        return fair_rates(to, self.hosts, self.labels, self.all_uplinks)


def misfit_of(measured: Measured, it: Hypothesis) -> float:
    """How badly a hypothesis fits what was measured."""
    return misfit(measured.destinations, measured.rates, it.hosts, it.labels, it.all_uplinks)


def penalty_of(it: Hypothesis) -> float:
    """What racks, and rates that differ from the common one, must gain in fit to be believed."""
    odd = float((it.hosts != np.median(it.hosts)).sum())
    racks = zip(it.racks, it.uplinks, strict=True)
    wide = float(sum(rate > NARROW * it.hosts[list(rack)].sum() for rack, rate in racks))
    whole = sum(PER_RACK + PER_MEMBER * len(rack) for rack in it.racks)
    return whole + LESS_ALIKE * odd + PER_WIDE_RACK * wide


def scored(it: Hypothesis, measured: Measured) -> Hypothesis:
    """The hypothesis with its score."""
    return replace(it, score=misfit_of(measured, it) + penalty_of(it))


def with_best_hosts(it: Hypothesis, measured: Measured) -> Hypothesis:
    """The same racks, with the workers' rates that fit best."""
    hosts = it.hosts.copy()
    fit_hosts(measured.destinations, measured.rates, hosts, it.labels, it.all_uplinks)
    return scored(replace(it, hosts=hosts), measured)


def without(it: Hypothesis, rack: Sequence[int]) -> Hypothesis:
    """The hypothesis without one of its racks."""
    number = it.racks.index(tuple(rack))
    racks = it.racks[:number] + it.racks[number + 1 :]
    return replace(it, racks=racks, uplinks=np.delete(it.uplinks, number))
