"""A pool of pairs of trees, and the best that some of them reach together.

A pair is a reduce tree and a broadcast tree with the same root: what one piece of the tensor takes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.linear import minimised
from weft.packing.closure import Closure, Floats, Ints
from weft.packing.pricing import tree_depth


class Mix(NamedTuple):
    """Some pairs of a pool, how much of the tensor each carries, what a unit takes then, and what links are worth."""

    chosen: tuple[int, ...]
    parts: Floats
    value: float
    prices: Floats


class Pool:
    """Pairs by number, with what each puts on every link when it carries the whole tensor."""

    def __init__(self, closure: Closure) -> None:
        self.closure = closure
        self.pairs: list[tuple[Ints, Ints]] = []
        self.depths: list[int] = []
        self.numbers: dict[tuple[bytes, bytes], int] = {}
        self._loads = np.zeros((64, len(closure.bandwidth)))

    @property
    def loads(self) -> Floats:
        return self._loads[: len(self.pairs)]

    def add(self, up: Ints, down: Ints) -> int:
        """The number of a pair, which is new or known."""
        key = (up.tobytes(), down.tobytes())
        number = self.numbers.setdefault(key, len(self.pairs))
        if number == len(self.pairs):
            if number == len(self._loads):
                self._loads = np.concatenate([self._loads, np.zeros_like(self._loads)])
            self.pairs.append((up.copy(), down.copy()))
            self.depths.append(int(tree_depth(up)) + int(tree_depth(down)))
            for parents, upwards in ((up, True), (down, False)):
                links, loads = self.closure.loads(parents, upwards)
                self._loads[number, links] += loads
        return number

    def alone(self, number: int) -> float:
        """What a unit takes on one pair."""
        return float((self._loads[number] / self.closure.bandwidth).max())

    def mixed(self, chosen: tuple[int, ...]) -> Mix:
        """These pairs with the parts that make them fastest together."""
        unique = tuple(dict.fromkeys(chosen))
        loads = self._loads[list(unique)]
        used = np.flatnonzero(loads.any(axis=0))
        rows, columns = len(used), len(unique)
        matrix = np.zeros((rows + 1, columns + 1))
        matrix[:rows, :columns] = loads[:, used].T
        matrix[:rows, columns] = -self.closure.bandwidth[used]
        matrix[rows, :columns] = 1.0
        lower, upper = np.full(rows + 1, -np.inf), np.zeros(rows + 1)
        lower[rows] = upper[rows] = 1.0
        solution = minimised(np.eye(columns + 1)[columns], matrix, lower, upper)
        prices = np.zeros(len(self.closure.bandwidth))
        prices[used] = np.maximum(0.0, -solution.prices[:rows])
        return Mix(unique, solution.x[:columns], solution.value, prices)

    def with_parts(self, chosen: tuple[int, ...], parts: Floats) -> Mix:
        """These pairs with these parts; no prices."""
        value = float((parts @ self._loads[list(chosen)] / self.closure.bandwidth).max())
        return Mix(chosen, parts, value, np.zeros(len(self.closure.bandwidth)))
