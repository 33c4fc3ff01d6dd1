"""Packing reduce and broadcast trees into a network, with a certificate: see ``search``.

A packing is always reported with what it is compared to. The bound is the greatest of: what counting proves for any schedule
(``weft.bounds``), what the prices of the search prove, and, where directions differ or workers are inactive, the cut bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from weft.bounds import bound as counting_bound
from weft.errors import InputError
from weft.network import Network, full_mesh
from weft.packing.alike import Merged, merged
from weft.packing.closure import Closure, Ints, closure_among, closure_of
from weft.packing.cut_bound import cut_bound, mirror_of
from weft.packing.master import KINDS, Formulation
from weft.packing.pricing import FEW_RELAYS, price_all
from weft.packing.search import Search, Tree
from weft.packing.seeds import broadcast_seeds, seed_trees
from weft.packing.symmetry import no_symmetry, symmetry_of

_PATIENCE = 5
"""After so many rounds the cut bound is asked, where it may say more than counting."""
_PART = 0.2
"""How much of the time it may take."""
_PART_FOR_MERGED = 0.6
"""of the time, where idle workers are merged; the rest is for spreading the packing over them"""
_MOST_SPREAD = 20_000
"""trees"""

__all__ = ["Packing", "Tree", "pack", "packings", "trees_from"]


@dataclass(frozen=True, slots=True)
class Packing:
    """Trees with their weights. A byte takes ``value`` seconds; no packing of trees takes less than ``bound``."""

    trees: tuple[Tree, ...]
    value: float
    bound: float
    formulation: Formulation
    rounds: int
    seconds: float
    unlimited: float | None = None
    """what a byte takes with as many trees as one likes, where their number was limited"""

    @property
    def quality(self) -> float:
        """bound / value: 1 is optimal."""
        return self.bound / self.value if self.value > 0 else 1.0

    @property
    def loss(self) -> float:
        """By how much slower it is because the number of trees was limited: 0.25 is a quarter."""
        return self.value / self.unlimited - 1 if self.unlimited else 0.0


def pack(
    network: Network,
    formulation: Formulation = "pipelined",
    *,
    gap: float = 0.003,
    seconds: float = 10.0,
    progress: Callable[[float], None] | None = None,
) -> Packing:
    """A packing that is proved to be within ``gap`` of the best, or the best that is found in the time.

    Among the packings that are equally fast, one whose trees are shallow. ``progress`` is called with the quality so far.
    """
    return packings(network, formulation, (2.0,), gap=gap, seconds=seconds, progress=progress)[0]


def packings(
    network: Network,
    formulation: Formulation = "pipelined",
    tastes: Sequence[float] = (0.5, 2.0, 4.0),
    *,
    gap: float = 0.003,
    seconds: float = 10.0,
    progress: Callable[[float], None] | None = None,
) -> list[Packing]:
    """Several packings that are equally fast; the higher the taste, the more a deep tree is avoided.

    They are the same to the program but not to a pipeline, so whoever executes one should try them. The default tastes were
    picked on a DGX-1; see docs/log.md for how much they matter there.
    """
    if formulation not in KINDS:
        raise InputError(f"the formulation {formulation!r} is unknown: use {', '.join(KINDS)}")
    if len(network.active) < 2:
        return [Packing((), 0.0, 0.0, formulation, 0, 0.0)]
    _compile()
    begun = time.monotonic()
    closure = closure_of(network)
    small = merged(closure)
    part = 1.0 if small is None else _PART_FOR_MERGED
    search = _search_of(network, closure if small is None else small.closure, formulation, part * seconds)
    search.begin(gap)
    while search.bound < search.value * (1 - gap) and time.monotonic() < search.deadline:
        if not search.improve():
            break
        if search.rounds == _PATIENCE:
            search.bound = max(search.bound, _cut_bound(network, formulation, _PART * seconds) * closure.unit)
        if progress is not None:
            progress(search.bound / search.value)
    search.add_shallow_at_last()
    if small is not None:
        search = _spread(search, small, closure, formulation, tastes, begun + seconds)
    unit = closure.unit
    value, bound = search.value / unit, search.bound / unit
    return [
        Packing(search.solution(taste), value, bound, formulation, search.rounds, time.monotonic() - begun)
        for taste in tastes
    ]


def trees_from(network: Network, ranks: Sequence[int], *, gap: float = 0.01, rounds: int = 100) -> tuple[Tree, ...]:
    """Broadcast trees over some workers, all from the first of them, as Blink packs them inside a machine."""
    closure = closure_among(network, ranks)
    only = no_symmetry(closure, np.zeros(1, dtype=np.int32))
    search = Search(closure, only, "broadcast", broadcast_seeds(closure, 0))
    search.begin(gap)
    while search.bound < search.value * (1 - gap) and search.rounds < rounds and search.improve():
        pass
    return search.trees(search.weights)


def _search_of(network: Network, closure: Closure, formulation: Formulation, seconds: float) -> Search:
    # Counting bounds any all-reduce whose stages may overlap, so also those that may not.
    least = 0.0 if formulation == "broadcast" else counting_bound(network, 1.0, latency=False).seconds * closure.unit
    return Search(closure, symmetry_of(network, closure), formulation, seed_trees(network, closure), least, seconds)


def _spread(
    search: Search, small: Merged, closure: Closure, formulation: Formulation, tastes: Sequence[float], deadline: float
) -> Search:
    """A packing of merged workers spread over all of them, in a program that then does with fewer of the trees."""
    chosen = [search.weights, *(search.shallow_weights(taste) for taste in tastes)]
    used = {number for weights in chosen for number in np.flatnonzero(weights > 1e-7).tolist()}
    draw = np.random.default_rng(0)
    whole = Search(
        closure, no_symmetry(closure, search.roots), formulation, (), search.bound, deadline - time.monotonic()
    )
    most = max(1, _MOST_SPREAD // len(used))
    trees: list[tuple[int, int, Ints, float]] = []
    for number in sorted(used):
        kind, at, parents = search.master.trees[number]
        turns = small.turns(parents, most, draw)
        weight = float(chosen[0][number]) / len(turns) if number < len(chosen[0]) else 0.0
        trees += [(kind, int(search.roots[at]), turn, weight) for turn in turns]
    whole.include(trees)
    whole.solve()
    whole.rounds = search.rounds
    whole.master.limit(whole.value * (1 + 1e-6))
    return whole


def _cut_bound(network: Network, formulation: Formulation, seconds: float) -> float:
    """The cut bound in seconds a byte, or 0 where it says no more than counting or bounds something else."""
    counted = formulation == "pipelined" and not network.inactive and mirror_of(network.graph) is not None
    if counted or formulation == "broadcast":
        return 0.0
    return cut_bound(network, formulation, seconds=seconds).seconds_per_byte


@cache
def _compile() -> None:
    """Have everything compiled before the time is taken: on a new machine that takes longer than any packing."""
    tiny = full_mesh(4)
    for relays in (0, 1, FEW_RELAYS + 1):
        price_all(np.ones((2 + relays, 2 + relays)), 2, np.arange(2, dtype=np.int32))
    most = tiny.with_active(tiny.workers[:3])
    search = _search_of(most, closure_of(most), "pipelined", 1.0)
    search.begin(0.0)
    search.improve()
    search.solution(1.0)
