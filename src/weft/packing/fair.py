"""Packings that a network executes by sharing its links fairly.

A packing gives every channel (an ordered pair of workers) a rate of its own. A network knows nothing of these: links are shared
max-min fairly among whoever sends. Workers that have their data from the start then take more than their part, and others,
whose data is still on its way, less than theirs: such a pipeline reached 70% to 85% of the rate of its packing.

So take the channels that a packing uses, and ask what each of them gets when all of them send. Trees that are packed into
these rates, as if every channel had a link of its own, can be executed as they are: nobody needs more than it gets. What is
lost depends on the channels. Packings that are equally fast use different ones, so several are tried, of the network and of
networks whose links differ from it by a few percent; nearly always there is one that loses little or nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled
from weft.network import Link, Network
from weft.packing.cut_bound import cut_bound
from weft.packing.pack import Packing, Tree, packings

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Channels = frozenset[tuple[int, int]]
"""Ordered pairs of ranks."""

_TASTES = (0.0, 2.0, 4.0)
_NOISE = 0.03
"""By how much links are off at most, so that another packing is found."""
_ENOUGH = 0.99
"""Part of the rate of the best packing that ends the search."""
_DRAWS = 30
_SETS = 3
"""Sets of channels that are packed, if the others lose no more than the best: how they pipeline only simulating shows."""

_HOPELESS = 2.0
"""Channels that make a packing so many times as slow are not even packed: others of the same network will be no better."""
_MOST_CHANNELS = 1500
"""With more, to say what can be packed into their rates takes longer than anybody waits."""


def fair_packings(
    network: Network, found: Sequence[Packing], tastes: Sequence[float] = (0.5, 2.0, 4.0), *, seconds: float = 3.0
) -> list[Packing]:
    """Packings for fair sharing, for every taste and each of the best sets of channels that are found in half of the time.

    ``found`` are packings of the network; their channels are tried first. Nothing is returned where no link is shared by two
    channels, because any packing is then fair, and where there are too many or they lose too much.
    """
    deadline = time.monotonic() + seconds
    usual = channels_of(found[0])
    if len(usual) > _MOST_CHANNELS or not _share(network, usual):
        return []
    ranked: list[tuple[float, Channels]] = []
    for tries, channels in enumerate(_several(network, found, deadline - seconds / 2)):
        # What could be packed into their rates, without packing it.
        least = cut_bound(fair_network(network, channels), seconds=seconds / 10)
        if not least.rounds:
            continue  # not even a first answer in time: nothing is known of these
        ranked = sorted([*ranked, (least.seconds_per_byte, channels)], key=lambda entry: entry[0])[:_SETS]
        if tries >= _SETS and ranked[0][0] > _HOPELESS * found[0].value:
            return []
        if len(ranked) == _SETS and found[0].value >= _ENOUGH * ranked[-1][0]:
            break
    limit = max(packing.bound for packing in found)
    made: list[Packing] = []
    for i, (value, channels) in enumerate(ranked):
        if value > ranked[0][0] / _ENOUGH:
            break
        fair = fair_network(network, channels)
        part = max(0.1, (deadline - time.monotonic()) / (len(ranked) - i))
        made += [
            replace(_by_rank(packing, fair, network), bound=limit)
            for packing in packings(fair, tastes=tastes, seconds=part)
        ]
    return made


def channels_of(packing: Packing) -> Channels:
    """The channels that the trees of a packing use."""
    used: set[tuple[int, int]] = set()
    for tree in packing.trees:
        for child, parent in enumerate(tree.parents.tolist()):
            if parent >= 0:
                used.add((child, parent) if tree.kind == "reduce" else (parent, child))
    return frozenset(used)


def fair_network(network: Network, channels: Channels) -> Network:
    """Every channel as a link of its own with the rate that it gets when all of them send; workers without any are left out."""
    pairs = sorted(channels)
    ranks = sorted({rank for pair in pairs for rank in pair})
    rates = fair_rates(network, pairs)
    names = network.workers
    return Network(
        tuple(names[rank] for rank in ranks),
        tuple(Link(names[a], names[b], rate) for (a, b), rate in zip(pairs, rates.tolist(), strict=True)),
        regions=(),
        inactive=tuple(names[rank] for rank in ranks if names[rank] in set(network.inactive)),
        name=f"{network.name}, shared fairly",
    )


def fair_rates(network: Network, pairs: Sequence[tuple[int, int]]) -> Floats:
    """What every pair of workers gets, in bytes a second, when all of them send at once."""
    routes = network.routes([a for a, _ in pairs], [b for _, b in pairs])
    return _filled(routes.start, routes.links, routes.share, network.graph.bandwidth.astype(np.float64))


@compiled
def _filled(start: Longs, links: Ints, share: Floats, bandwidth: Floats) -> Floats:
    """Raise all rates alike; whoever meets a full link stays where it is."""
    count = len(start) - 1
    rates = np.zeros(count)
    waiting = np.ones(count, dtype=np.bool_)
    left = bandwidth.copy()
    while waiting.any():
        demand = np.zeros(len(left))
        for i in range(count):
            if waiting[i]:
                for hop in range(start[i], start[i + 1]):
                    demand[links[hop]] += share[hop]
        level = np.inf
        for link in range(len(left)):
            if demand[link] > 0:
                level = min(level, left[link] / demand[link])
        full = demand * level >= left * (1 - 1e-12)
        for i in range(count):
            if waiting[i]:
                rates[i] += level
                for hop in range(start[i], start[i + 1]):
                    left[links[hop]] = max(0.0, left[links[hop]] - share[hop] * level)
        for i in range(count):
            for hop in range(start[i], start[i + 1]):
                if demand[links[hop]] > 0 and full[links[hop]]:
                    waiting[i] = False
    return rates


def _several(network: Network, found: Sequence[Packing], deadline: float) -> Iterator[Channels]:
    """Different sets of channels, each of a packing of the network or of one that is nearly the same."""
    seen: set[Channels] = set()
    draw = np.random.default_rng(0)
    for turn in range(_DRAWS):
        if turn:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            found = packings(_disturbed(network, draw), tastes=_TASTES, seconds=left)
        for packing in found:
            channels = channels_of(packing)
            if channels not in seen:
                seen.add(channels)
                yield channels


def _disturbed(network: Network, draw: np.random.Generator) -> Network:
    factors = 1 + _NOISE * draw.random(len(network.links))
    links = zip(network.links, factors.tolist(), strict=True)
    return replace(network, links=tuple(replace(link, bandwidth=link.bandwidth * factor) for link, factor in links))


def _share(network: Network, channels: Channels) -> bool:
    """Whether some link is on the way of two channels."""
    pairs = sorted(channels)
    routes = network.routes([a for a, _ in pairs], [b for _, b in pairs])
    return len(np.unique(routes.links)) < len(routes.links)


def _by_rank(packing: Packing, part: Network, network: Network) -> Packing:
    """A packing of some of the workers, with the ranks that they have among all."""
    ranks = np.array([network.node_numbers[name] for name in part.workers])

    def moved(tree: Tree) -> Tree:
        parents = np.full(len(network.workers), -2, dtype=np.int32)
        parents[ranks] = np.where(tree.parents >= 0, ranks[np.maximum(tree.parents, 0)], tree.parents)
        return replace(tree, root=int(ranks[tree.root]), parents=parents)

    return replace(packing, trees=tuple(moved(tree) for tree in packing.trees))
