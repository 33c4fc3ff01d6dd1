"""What every stream of a round gets on racks of workers, if all share fairly (max-min), and which link holds it back.

Links are numbered: a worker's way out, a worker's way in, a rack's way out, a rack's way in. Streams inside a rack do not use
the rack's.
"""

from __future__ import annotations

import numpy as np

from weft.compiled import compiled
from weft.probing.rounds import Floats, Ints


@compiled
def alike_both_ways(hosts: Floats, uplinks: Floats) -> Floats:
    """The rates of all links, by number."""
    return np.concatenate((hosts, hosts, uplinks, uplinks))


@compiled
def fair_rates_on(to: Ints, rack: Ints, rates_of_links: Floats) -> tuple[Floats, Ints]:
    """The rate of every stream of one round, by source, and the link that limits it (-1 where there is no stream).

    ``rates_of_links`` is by their numbers.
    """
    n, links = len(to), len(rates_of_links)
    racks = links // 2 - n
    left, users = rates_of_links.copy(), np.zeros(links, dtype=np.int64)
    path = np.full((n, 4), -1, dtype=np.int64)
    rates, limits = np.zeros(n), np.full(n, -1, dtype=np.int64)
    waiting = 0
    for i in range(n):
        if to[i] < 0:
            continue
        waiting += 1
        path[i, 0], path[i, 1] = i, n + to[i]
        if rack[i] != rack[to[i]]:
            path[i, 2], path[i, 3] = 2 * n + rack[i], 2 * n + racks + rack[to[i]]
        for hop in range(4):
            if path[i, hop] >= 0:
                users[path[i, hop]] += 1
    while waiting > 0:
        narrowest, level = -1, np.inf
        for link in range(links):
            if users[link] > 0 and left[link] < level * users[link]:
                narrowest, level = link, left[link] / users[link]
        for i in range(n):
            if limits[i] >= 0 or to[i] < 0:
                continue
            if path[i, 0] == narrowest or path[i, 1] == narrowest or path[i, 2] == narrowest or path[i, 3] == narrowest:
                rates[i], limits[i] = level, narrowest
                waiting -= 1
                for hop in range(4):
                    link = path[i, hop]
                    if link >= 0:
                        left[link] = max(0.0, left[link] - level)
                        users[link] -= 1
    return rates, limits


@compiled
def fair_rates(to: Ints, hosts: Floats, rack: Ints, uplinks: Floats) -> tuple[Floats, Ints]:
    """The same where ways in are as wide as ways out."""
    return fair_rates_on(to, rack, alike_both_ways(hosts, uplinks))
