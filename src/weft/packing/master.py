"""The packing program: how much each of the trees found so far carries, and what every link is worth.

    minimise T  with   on every link:  bytes of all trees <= T b,
                       at every root:  reduced = broadcast,
                       all reduce trees together: 1 (the tensor).

Reduce and broadcast run side by side all the time, as fine enough pipelining lets them. ``separate`` is formulation (3) of
Zhang, Wu and Li: first all reductions, then all broadcasts, each with the links for itself; ``overlapped`` is their (8):
broadcasts may begin during the reductions, on what these leave free.
"""

from __future__ import annotations

from typing import Literal

import highspy
import numpy as np

from weft.packing.closure import Floats, Ints

Formulation = Literal["pipelined", "overlapped", "separate"]
REDUCE, BROADCAST = 0, 1


class Master:
    """A linear program that grows by columns; the solver starts from where it was."""

    def __init__(self, bandwidth: Floats, roots: int) -> None:
        self.links = len(bandwidth)
        self.roots = roots
        self.trees: list[tuple[int, int, Ints]] = []
        """kind, root and parents of every tree, in the order of the columns"""
        self.known: set[tuple[int, bytes]] = set()
        self.solver = highspy.Highs()
        self.solver.setOptionValue("output_flag", False)
        self.solver.setOptionValue("threads", 1)
        self.solver.setOptionValue("simplex_strategy", 4)
        for _ in range(self.links):
            self.solver.addRow(-highspy.kHighsInf, 0.0, 0, np.array([], dtype=np.int32), np.array([]))
        for _ in range(roots):
            self.solver.addRow(0.0, 0.0, 0, np.array([], dtype=np.int32), np.array([]))
        self.solver.addRow(1.0, 1.0, 0, np.array([], dtype=np.int32), np.array([]))
        every = np.arange(self.links, dtype=np.int32)
        self.solver.addCol(1.0, 0.0, highspy.kHighsInf, self.links, every, -bandwidth)

    def add(self, kind: int, root: int, parents: Ints, links: Ints, loads: Floats) -> bool:
        """Add a tree, unless it is there already."""
        key = (kind, parents.tobytes())
        if key in self.known:
            return False
        self.known.add(key)
        self.trees.append((kind, root, parents))
        rows = [*links, self.links + root]
        values = [*loads, 1.0 if kind == REDUCE else -1.0]
        if kind == REDUCE:
            rows.append(self.links + self.roots)
            values.append(1.0)
        self.solver.addCol(0.0, 0.0, highspy.kHighsInf, len(rows), np.array(rows, dtype=np.int32), np.array(values))
        return True

    def solve(self) -> tuple[float, Floats, Floats, Floats]:
        """The least T, the trees' weights, the links' prices, and the roots' balance prices."""
        self.solver.run()
        status = self.solver.getModelStatus()
        assert status == highspy.HighsModelStatus.kOptimal, self.solver.modelStatusToString(status)
        found = self.solver.getSolution()
        duals = np.array(found.row_dual)
        prices = np.maximum(0.0, -duals[: self.links])
        weights = np.maximum(0.0, np.array(found.col_value)[1:])
        return (
            self.solver.getInfo().objective_function_value,
            weights,
            prices,
            duals[self.links : self.links + self.roots],
        )
