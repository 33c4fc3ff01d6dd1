"""Table 1 of SparDL: what each method costs, in rounds and in numbers that come to a worker, for k of n elements at P workers."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from weft.sparse.spardl import Exchange, check_teams, exchanges_recursively


@dataclass(frozen=True, slots=True)
class Cost:
    """Rounds, or messages where a round has several, and numbers (indexes and values) at least and at most."""

    rounds: float
    least: float
    most: float

    def seconds(self, alpha: float, beta: float) -> float:
        """In the alpha-beta model, in the middle of what is possible."""
        return self.rounds * alpha + (self.least + self.most) / 2 * beta


def steps(count: int) -> int:
    """Rounds in which everybody can have heard of everybody: the logarithm, rounded up."""
    return (count - 1).bit_length()


def spardl_cost(workers: int, k: float, teams: int = 1, exchange: Exchange = "auto") -> Cost:
    """SparDL, for any number of workers."""
    check_teams(workers, teams, exchange)
    p, d = workers, teams
    rounds = 2 * steps(p // d) + steps(d)
    if exchanges_recursively(teams, exchange):
        elements = 2 * k * (2 * p - 2 * d + d * log2(d)) / p
        return Cost(rounds, elements, elements)
    return Cost(rounds, bruck_least(p, k, d), 2 * k * (d**2 + 2 * p - 3 * d) / p)


def bruck_least(workers: int, k: float, teams: int) -> float:
    """What B-SAG takes at least.

    The paper prints 2k (d^2 + P - 2d) / (Pd), which is the least of T'2 and T'3 and lacks T'1, 2k (P - d) / P, although its
    upper limit has all three.
    """
    p, d = workers, teams
    return 2 * k * (p * d + p - 2 * d) / (p * d)


def rival_costs(workers: int, k: float, n: float) -> dict[str, Cost]:
    """The rivals, for powers of two: the table has nothing for other numbers."""
    p, turns = workers, log2(workers)
    part = (p - 1) / p
    return {
        "dense": Cost(2 * turns, 2 * part * n, 2 * part * n),
        "topk-a": Cost(turns, 2 * (p - 1) * k, 2 * (p - 1) * k),
        "topk-dsa": Cost(p + 2 * turns, 4 * part * k, part * (2 * k + n)),
        "gtopk": Cost(2 * turns, 4 * turns * k, 4 * turns * k),
        "ok-topk": Cost(2 * (p + turns), 2 * k * part, 6 * k * part),
    }
