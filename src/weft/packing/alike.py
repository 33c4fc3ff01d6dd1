"""Idle workers that are alike count as one.

Two inactive workers are alike if swapping them maps every route of the closure onto a route, link by link, with the same rates:
GPUs of one machine that are joined to all others alike, hosts behind one switch. Links that such swaps map onto each other are
an orbit. A whole class of alike workers is made one relay, and every orbit one link that is as fast as all of its links together.
The best packing of trees stays exactly as fast:

- A tree of the merged closure is spread over the members of its relays in turns, such that neighbours in the tree take all pairs
  of members equally often. Every link of an orbit then carries its even share.
- A tree of the network becomes, member by member, a connected set of merged edges. It contains a tree that uses no orbit more.

Few relays are what the oracle can try in all combinations: two of sixteen GPUs active leave fourteen idle ones, but one class a
machine. Where hashed routes or rates tell idle workers apart nothing is merged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

import numpy as np
from numpy.typing import NDArray

from weft.network.routes import Routes
from weft.packing.closure import Closure, Floats, Ints, Longs
from weft.packing.symmetry import orbits

_SAME = 1e-9
"""Rates that differ by less are the same."""


@dataclass(frozen=True, eq=False)
class Merged:
    """A closure in which every class of idle workers is one node; ``members[i]`` are the nodes that node ``i`` stands for."""

    closure: Closure
    members: tuple[tuple[int, ...], ...]
    nodes: int
    """how many there were"""

    def turns(self, parents: Ints, most: int, draw: np.random.Generator) -> NDArray[np.int32]:
        """A tree over different members, one row a turn; all turns, or if there are more than ``most``, some of them."""
        used = np.flatnonzero(parents > -2)
        sizes = np.array([len(self.members[node]) for node in used])
        odd = self._odd(parents)[used]
        period = lcm(*sizes[~odd].tolist()), lcm(*sizes[odd].tolist())
        count = period[0] * period[1]
        turn = np.arange(count) if count <= most else np.sort(draw.choice(count, most, replace=False))
        # Neighbours count like the digits of a number, so all pairs come equally often.
        digit = np.where(odd, turn[:, None] // period[0], turn[:, None] % period[0]) % sizes
        place = np.zeros((len(turn), len(parents)), dtype=np.int32)
        for i, node in enumerate(used.tolist()):
            place[:, node] = np.array(self.members[node], dtype=np.int32)[digit[:, i]]
        found = np.full((len(turn), self.nodes), -2, dtype=np.int32)
        above = np.where(parents[used] >= 0, place[:, np.maximum(parents[used], 0)], parents[used])
        found[np.arange(len(turn))[:, None], place[:, used]] = above
        return found

    def _odd(self, parents: Ints) -> NDArray[np.bool_]:
        """Of every node in the tree: whether it counts by the second digit; neighbours of several members differ in that."""
        odd = np.zeros(len(parents), dtype=np.bool_)
        for node in _from_root(parents):
            above = int(parents[node])
            odd[node] = above >= 0 and len(self.members[above]) > 1 and not odd[above]
        return odd


def merged(closure: Closure) -> Merged | None:
    """The closure with alike idle workers merged; nothing if there are none."""
    classes, swaps = _classes(closure)
    if not swaps:
        return None
    orbit = orbits(np.arange(len(closure.bandwidth)), swaps)
    members = (*((node,) for node in range(closure.active)), *classes)
    first = np.array([nodes[0] for nodes in members])
    pairs = (first[:, None] * closure.n + first[None, :]).reshape(-1)
    hops = _hops(closure.routes, pairs)
    start = np.zeros(len(pairs) + 1, dtype=np.int64)
    np.cumsum(_lengths(closure.routes, pairs), out=start[1:])
    routes = Routes(start, orbit[closure.routes.links[hops]], closure.routes.share[hops], closure.routes.latency[pairs])
    bandwidth: Floats = np.bincount(orbit, weights=closure.bandwidth).astype(np.float64)
    joined = closure.joined[np.ix_(first, first)]
    small = replace(closure, ranks=closure.ranks[first], routes=routes, bandwidth=bandwidth, joined=joined)
    return Merged(small, members, closure.n)


def _classes(closure: Closure) -> tuple[list[tuple[int, ...]], list[Longs]]:
    """The idle workers' classes, and where every swap takes the links.

    Being alike is transitive, so each worker is compared with the first of a class alone.
    """
    if closure.active == closure.n:
        return [], []
    every = np.flatnonzero(closure.joined.reshape(-1))
    uses = np.bincount(closure.routes.links[_hops(closure.routes, every)], minlength=len(closure.bandwidth))
    costs = closure.costs(1.0 / closure.bandwidth)
    classes: list[list[int]] = []
    swaps: list[Longs] = []
    for node in range(closure.active, closure.n):
        for members in classes:
            moved = _swapped(closure, uses, members[0], node) if _as_far(costs, members[0], node) else None
            if moved is not None:
                members.append(node)
                swaps.append(moved)
                break
        else:
            classes.append([node])
    return [tuple(members) for members in classes], swaps


def _as_far(costs: Floats, a: int, b: int) -> bool:
    """Whether two nodes are as far from all others: quickly said, and of those that are alike always true."""
    others = np.ones(len(costs), dtype=np.bool_)
    others[[a, b]] = False
    there, back = (np.isclose(costs[x, others], costs[y, others]) for x, y in ((a, b), (b, a)))
    into = np.isclose(costs[others, a], costs[others, b])
    return bool(there.all() and back.all() and into.all())


def _swapped(closure: Closure, uses: Longs, a: int, b: int) -> Longs | None:
    """Where swapping two nodes takes every link, or nothing if the closure is another one then."""
    n, routes = closure.n, closure.routes
    others = np.array([v for v in range(n) if v not in (a, b)], dtype=np.int64)
    own = [np.concatenate([x * n + others, others * n + x, [x * n + y]]) for x, y in ((a, b), (b, a))]
    pairs, images = np.concatenate(own), np.concatenate(own[::-1])
    joined = closure.joined.reshape(-1)
    if (joined[pairs] != joined[images]).any():
        return None
    pairs, images = pairs[joined[pairs]], images[joined[pairs]]
    if (_lengths(routes, pairs) != _lengths(routes, images)).any():
        return None
    here, there = _hops(routes, pairs), _hops(routes, images)
    moved = np.arange(len(closure.bandwidth))
    moved[routes.links[here]] = routes.links[there]
    same = (moved[routes.links[here]] == routes.links[there]).all() and (
        routes.share[here] == routes.share[there]
    ).all()
    returns = (moved[moved] == np.arange(len(moved))).all()
    # Links that move must be of no use to anybody else, whose routes stay where they are.
    private = np.bincount(routes.links[here], minlength=len(moved)) == uses
    stays = moved == np.arange(len(moved))
    alike = np.abs(closure.bandwidth[moved] - closure.bandwidth) <= _SAME * closure.bandwidth
    return moved if same and returns and (private | stays).all() and alike.all() else None


def _lengths(routes: Routes, pairs: Longs) -> Longs:
    found: Longs = routes.start[pairs + 1] - routes.start[pairs]
    return found


def _hops(routes: Routes, pairs: Longs) -> Longs:
    """The places of the pairs' links in the list of all routes' links, pair after pair."""
    lengths = _lengths(routes, pairs)
    offset = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    found: Longs = np.repeat(routes.start[pairs], lengths) + offset
    return found


def _from_root(parents: Ints) -> list[int]:
    """The nodes of a tree, every parent before its children."""
    found = np.flatnonzero(parents == -1).tolist()
    children: dict[int, list[int]] = {}
    for node, above in enumerate(parents.tolist()):
        children.setdefault(above, []).append(node)
    for node in found:
        found += children.get(node, [])
    return found
