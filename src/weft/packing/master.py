"""The packing program: how much each of the trees found so far carries, and what every link is worth.

Reductions happen in a first stage, broadcasts in the same or in a second one, and the formulations differ in that:

- ``pipelined``: one stage. Both run side by side all the time, as fine enough pipelining lets them. The default.
- ``separate``: formulation (3) of Zhang, Wu and Li. First all reductions, then all broadcasts.
- ``overlapped``: their (8). Broadcasts may begin in the first stage, on what the reductions leave of the links; the
  second stage lasts as long as the first.
- ``broadcast``: their (5). Broadcasts alone, as Blink packs them inside a machine.

    minimise the stages' lengths  with   in every stage, on every link:  bytes of its trees <= length x bandwidth,
                                         at every root:  reduced = broadcast,
                                         all trees of the first kind together: 1 (the tensor).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import highspy
import numpy as np

from weft.packing.closure import Floats, Ints

Formulation = Literal["pipelined", "overlapped", "separate", "broadcast"]
REDUCE, BROADCAST, LATE_BROADCAST = 0, 1, 2
"""Kinds of trees; a late broadcast belongs to the second stage."""

KINDS: dict[Formulation, tuple[int, ...]] = {
    "pipelined": (REDUCE, BROADCAST),
    "overlapped": (REDUCE, BROADCAST, LATE_BROADCAST),
    "separate": (REDUCE, LATE_BROADCAST),
    "broadcast": (BROADCAST,),
}
_LEAST_SECONDS = 0.05
_EMPTY = np.array([], dtype=np.int32), np.array([])


class Solved(NamedTuple):
    """How long all stages are, what links are worth, one row a stage, and what part of the tensor every tree carries."""

    value: float
    prices: Floats
    weights: Floats


class Master:
    """A linear program that grows by columns; the solver goes on from where it was."""

    def __init__(self, bandwidth: Floats, roots: int, formulation: Formulation = "pipelined") -> None:
        self.links = len(bandwidth)
        self.roots = roots
        self.kinds = KINDS[formulation]
        self.stages = 1 if formulation in ("pipelined", "broadcast") else 2
        self.trees: list[tuple[int, int, Ints]] = []
        """kind, root and parents of every tree, in the order of the columns"""
        self.known: dict[tuple[int, bytes], int] = {}
        """the number of every tree by kind and parents"""
        self.solver = highspy.Highs()
        self.solver.setOptionValue("output_flag", False)
        self.solver.setOptionValue("threads", 1)
        self.solver.setOptionValue("simplex_strategy", 4)
        rows = self.stages * self.links
        for _ in range(rows):
            self.solver.addRow(-highspy.kHighsInf, 0.0, 0, *_EMPTY)
        for _ in range(roots if len(self.kinds) > 1 else 0):
            self.solver.addRow(0.0, 0.0, 0, *_EMPTY)
        self.solver.addRow(1.0, 1.0, 0, *_EMPTY)
        self.lengths = self._add_lengths(bandwidth, formulation)

    def _add_lengths(self, bandwidth: Floats, formulation: Formulation) -> int:
        """The columns of the stages' lengths, and how many there are."""
        every = np.arange(self.stages * self.links, dtype=np.int32)
        if formulation == "separate":
            for stage in range(2):
                rows = every[stage * self.links : (stage + 1) * self.links]
                self.solver.addCol(1.0, 0.0, highspy.kHighsInf, self.links, rows, -bandwidth)
            return 2
        part = np.tile(-bandwidth / self.stages, self.stages)
        self.solver.addCol(1.0, 0.0, highspy.kHighsInf, len(every), every, part)
        return 1

    def add(self, kind: int, root: int, parents: Ints, links: Ints, loads: Floats) -> bool:
        """Add a tree, unless it is there already."""
        key = (kind, parents.tobytes())
        if key in self.known:
            return False
        self.known[key] = len(self.trees)
        self.trees.append((kind, root, parents))
        balance = self.stages * self.links
        rows = [*(links + (self.links if kind == LATE_BROADCAST else 0))]
        values = [*loads]
        if len(self.kinds) > 1:
            rows.append(balance + root)
            values.append(1.0 if kind == REDUCE else -1.0)
        if kind == self.kinds[0]:
            rows.append(balance + (self.roots if len(self.kinds) > 1 else 0))
            values.append(1.0)
        self.solver.addCol(0.0, 0.0, highspy.kHighsInf, len(rows), np.array(rows, dtype=np.int32), np.array(values))
        return True

    def solve(self, seconds: float = math.inf) -> Solved | None:
        """The least length of all stages, as far as it is found in the time; nothing if not even a packing is."""
        if not self._run(seconds):
            return None
        solution, value = self.solver.getSolution(), self.solver.getInfo().objective_function_value
        duals = np.array(solution.row_dual)[: self.stages * self.links]
        prices = np.maximum(0.0, -duals).reshape(self.stages, self.links)
        return Solved(value, prices, self._weights())

    def _weights(self) -> Floats:
        found: Floats = np.maximum(0.0, np.array(self.solver.getSolution().col_value)[self.lengths :])
        return found

    def limit(self, longest: float) -> None:
        """From now on, all stages together are at most so long."""
        every = np.arange(self.lengths, dtype=np.int32)
        self.solver.addRow(-highspy.kHighsInf, longest, self.lengths, every, np.ones(self.lengths))

    def prefer(self, cost_of_tree: Floats, seconds: float = math.inf) -> Floats | None:
        """What every tree carries in the packing whose trees cost least, if one is found in the time."""
        for column in range(self.lengths):
            self.solver.changeColCost(column, 0.0)
        for i, cost in enumerate(cost_of_tree.tolist()):
            self.solver.changeColCost(self.lengths + i, cost)
        return self._weights() if self._run(seconds) else None

    def _run(self, seconds: float) -> bool:
        """Whether there is a solution, the best or one on the way to it."""
        self.solver.setOptionValue("time_limit", self.solver.getRunTime() + max(seconds, _LEAST_SECONDS))
        self.solver.run()
        status = self.solver.getModelStatus()
        if status == highspy.HighsModelStatus.kOptimal:
            return True
        assert status == highspy.HighsModelStatus.kTimeLimit, self.solver.modelStatusToString(status)
        feasible: bool = self.solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        return feasible
