"""Networks of racks for a probe to find out: made by hand, or drawn at random."""

from __future__ import annotations

import numpy as np

from benchmarks.scenarios import MBIT
from weft.network import Link, Network, Region, both_ways


def racks_of(
    sizes: list[int], uplinks: list[float], slow: dict[int, float], order: list[int], host: float = 400 * MBIT
) -> Network:
    """Racks of these sizes under one core switch; ``slow`` workers and the order of ranks count through the racks."""
    names = [f"{'abcdefgh'[rack]}{k}" for rack, size in enumerate(sizes) for k in range(size)]
    links = [Link(name, f"tor-{name[0]}", slow.get(k, host)) for k, name in enumerate(names)]
    links += [Link(f"tor-{'abcdefgh'[rack]}", "core", rate) for rack, rate in enumerate(uplinks)]
    tors = tuple(f"tor-{'abcdefgh'[rack]}" for rack in range(len(sizes)))
    regions = tuple(Region(tor, tuple(name for name in names if name[0] == tor[-1])) for tor in tors)
    return Network(tuple(names[k] for k in order), both_ways(links), (*tors, "core"), regions)


def drawn_network(seed: int) -> Network:
    """4 to 16 workers in 2 to 5 racks of 2 or more whose uplinks carry at most 4/5 of their workers, up to two slow workers."""
    random = np.random.default_rng(seed)
    racks = int(random.integers(2, 6))
    workers = int(random.integers(max(4, 2 * racks), 17))
    sizes = [2] * racks
    for _ in range(workers - 2 * racks):
        sizes[int(random.integers(racks))] += 1
    host = float(random.choice([100, 400, 1000])) * MBIT
    chosen = random.choice(workers, int(random.integers(3)), replace=False)
    slow = {int(k): host * float(random.choice([0.25, 0.5])) for k in chosen}
    starts = np.concatenate([[0], np.cumsum(sizes)])
    demands = [sum(slow.get(k, host) for k in range(starts[r], starts[r + 1])) for r in range(racks)]
    alike = host * float(random.choice([0.25, 0.5, 1.0]))
    uplinks = [min(alike if seed % 3 else demand / float(random.integers(2, 5)), 0.8 * demand) for demand in demands]
    order = list(range(workers)) if seed % 4 == 0 else [int(k) for k in random.permutation(workers)]
    return racks_of(sizes, uplinks, slow, order, host)


def true_regions(network: Network) -> set[frozenset[int]]:
    return {frozenset(network.workers.index(name) for name in region.workers) for region in network.regions or ()}
