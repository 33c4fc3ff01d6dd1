"""What else might be, though nothing speaks for it yet, only nothing against it: the next rounds must decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from weft.probing.design import gain_of, leaving_round
from weft.probing.hypotheses import NARROW, Hypothesis, misfit_of, penalty_of
from weft.probing.rounds import Measured

FELT = 0.7
"""A rack that carries this part of its workers would be felt, if they all sent."""
TOLD = 2.0
"""A doubt that one round dispels by no more than this cannot be decided."""


def doubts(best: Hypothesis, measured: Measured) -> list[Hypothesis]:
    """The likeliest hypothesis with one thing changed.

    The scores are without penalties for what is new: only measurements against a doubt dispel it.
    """
    allowance = penalty_of(best)
    found = [*_faster_workers(best), *_unfelt_racks(best)]
    return [replace(one, score=misfit_of(measured, one) + allowance) for one in found]


def _faster_workers(best: Hypothesis) -> Iterator[Hypothesis]:
    """A slow worker is as fast as the others, and shared its way: with nobody in particular, or with another one."""
    fastest = float(best.hosts.max())
    for rank, rate in enumerate(best.hosts):
        if rate < fastest:
            hosts = best.hosts.copy()
            hosts[rank] = fastest
            yield replace(best, hosts=hosts)
            for other in best.free:
                if rank in best.free and other != rank:
                    uplink = rate + best.hosts[other]
                    yield replace(_with_rack(best, tuple(sorted((rank, other))), uplink), hosts=hosts)


def _unfelt_racks(best: Hypothesis) -> Iterator[Hypothesis]:
    """Some that seem to be in no rack are in one."""
    if len(best.free) > 2:
        for pair in combinations(best.free, 2):
            yield _with_rack(best, pair, FELT * float(best.hosts[list(pair)].sum()))
    if len(best.free) > 1 and best.racks:
        yield from _rack_of_the_rest(best)


def _rack_of_the_rest(best: Hypothesis) -> Iterator[Hypothesis]:
    """All that seem to be in no rack are in one that is wider than the others. Only some rounds tell, on some networks none."""
    whole = float(best.hosts[list(best.free)].sum())
    for uplink in (best.typical_uplink, 0.5 * whole, FELT * whole):
        other = _with_rack(best, best.free, uplink)
        if uplink < NARROW * whole and gain_of(leaving_round(best.free, best), best, [other]) > TOLD:
            yield other


def _with_rack(best: Hypothesis, rack: tuple[int, ...], uplink: float) -> Hypothesis:
    return replace(best, racks=(*best.racks, rack), uplinks=np.append(best.uplinks, uplink))
