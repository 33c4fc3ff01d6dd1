"""What methods cost by the formulas of the DS-Sync paper, Tables I and II: latency and transfer delay.

N workers in C racks of G; S bytes are synchronized in L calls; a hop has the latency alpha; a byte takes beta on every link
(Table I), or beta_1 inside a rack and beta_2 between racks (Table II). Corrected: the latency of DS-Sync's group at home, of
G - 1 workers, is 2L(G - 2) alpha, not 2L(G - 1). The tables count 2S for a pair, which is what both of it send together: by the
ring's own formula, and in a simulation with links that carry both ways at once, it takes half of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from weft.errors import InputError


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of latency, and seconds that the bytes take."""

    latency: float
    transfer: float

    @property
    def seconds(self) -> float:
        return self.latency + self.transfer


@dataclass(frozen=True, slots=True)
class Setting:
    """The numbers that the formulas need."""

    workers: int
    nbytes: float
    hop: float
    """alpha, seconds"""
    inside: float
    """beta_1, seconds a byte; in Table I the only one"""
    between: float
    """beta_2"""
    racks: int = 1
    calls: int = 1
    servers: int = 1
    chunks: int = 1
    """of the double tree"""

    def __post_init__(self) -> None:
        if min(self.workers, self.racks, self.calls, self.servers, self.chunks) < 1 or self.workers % self.racks:
            raise InputError(f"{self} is not possible: all counts are 1 or more, and racks have the same size")

    @property
    def rack(self) -> int:
        """G, the workers of one rack."""
        return self.workers // self.racks


def table_1(setting: Setting) -> dict[str, Cost]:
    """On a uniform network."""
    n, calls, size, beta = setting.workers, setting.calls * setting.hop, setting.nbytes, setting.inside
    tree = 2 * (log2(n) + setting.chunks)
    return {
        "parameter-server": Cost(2 * (n - 1) * calls, 2 * (n - 1) * size * beta / setting.servers),
        "ring": Cost(2 * (n - 1) * calls, 2 * (n - 1) * size * beta / n),
        "double-binary-tree": Cost(tree * calls, tree * size * beta / setting.chunks),
    }


def table_2(setting: Setting) -> dict[str, Cost]:
    """On racks, with inter-rack links that others use, too. DS-Sync takes as long as the slower of its groups."""
    n, racks, rack, size = setting.workers, setting.racks, setting.rack, setting.nbytes
    calls, inside, between = setting.calls * setting.hop, setting.inside, setting.between
    tree = 2 * (log2(n) + setting.chunks)
    crossing = (racks - 1) * rack * size * between + (rack - 1) * size * inside
    groups = ds_sync_groups(setting)
    return {
        "parameter-server": Cost(2 * (n - 1) * calls, 2 * crossing / setting.servers),
        "ring": Cost(2 * (n - 1) * calls, 2 * (n - 1) * size * between / n),
        "double-binary-tree": Cost(tree * calls, tree * size * between / setting.chunks),
        "hierarchical": Cost(
            2 * (rack + racks - 2) * calls,
            2 * (rack - 1) * size * inside / rack + 2 * (racks - 1) * size * between / racks,
        ),
        "gossip": Cost(2 * calls, 4 * size * between),
        "ds-sync": max(groups, key=lambda cost: cost.seconds),
    }


def ds_sync_groups(setting: Setting) -> tuple[Cost, Cost]:
    """The pair that crosses a bottleneck, and the group at home, of G - 1 workers."""
    calls, home = setting.calls * setting.hop, max(1, setting.rack - 1)
    pair = Cost(2 * calls, 2 * setting.nbytes * setting.between)
    return pair, Cost(2 * (home - 1) * calls, 2 * (home - 1) * setting.nbytes * setting.inside / home)
