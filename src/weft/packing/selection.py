"""The best few pairs of a pool, as a mixed-integer program.

minimise T  with  on every link: bytes of the pairs <= T x bandwidth,  all parts together: 1,
                  part of a pair <= whether it is chosen,  at most K chosen.
"""

from __future__ import annotations

import highspy
import numpy as np

from weft.packing.closure import Floats, Ints
from weft.packing.pool import Mix, Pool

_CLOSE = 0.002


def best_few(pool: Pool, among: list[int], most: int, start: Mix, seconds: float, longest: float | None = None) -> Mix:
    """At most so many of these pairs: the fastest, or if ``longest`` is given the shallowest that take no longer.

    ``start`` are some of them; if nothing better is found in the time, they are returned.
    """
    n = len(among)
    solver = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("time_limit", seconds), ("mip_rel_gap", _CLOSE)):
        solver.setOptionValue(option, value)
    solver.addVar(0.0, highspy.kHighsInf if longest is None else longest)
    solver.changeColCost(0, 1.0 if longest is None else 0.0)
    for column in range(1, 2 * n + 1):
        solver.addVar(0.0, 1.0)
        if column > n:
            solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        elif longest is not None:
            solver.changeColCost(column, float(pool.depths[among[column - 1]]))
    _add_rows(solver, pool, among, most)
    solver.setSolution(_known(among, start, n))
    solver.run()
    found = np.array(solver.getSolution().col_value)
    if len(found) <= n or solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return start
    parts = np.maximum(found[1 : n + 1], 0.0)
    parts[np.argsort(-parts, kind="stable")[most:]] = 0.0
    kept = np.flatnonzero(parts > 1e-6)
    return pool.with_parts(tuple(among[i] for i in kept.tolist()), parts[kept] / parts[kept].sum())


def _add_rows(solver: highspy.Highs, pool: Pool, among: list[int], most: int) -> None:
    """Column 0 is the time, then come the parts, then whether each pair is chosen."""
    n = len(among)
    parts, flags = np.arange(1, n + 1, dtype=np.int32), np.arange(n + 1, 2 * n + 1, dtype=np.int32)
    loads = pool.loads[among]
    for link in np.flatnonzero(loads.any(axis=0)).tolist():
        users = np.flatnonzero(loads[:, link])
        values = np.append(loads[users, link], -pool.closure.bandwidth[link])
        _at_most(solver, np.append(parts[users], np.int32(0)), values, 0.0)
    solver.addRow(1.0, 1.0, n, parts, np.ones(n))
    _at_most(solver, flags, np.ones(n), float(most))
    for part, flag in zip(parts, flags, strict=True):
        _at_most(solver, np.array([part, flag]), np.array([1.0, -1.0]), 0.0)


def _at_most(solver: highspy.Highs, columns: Ints, values: Floats, upper: float) -> None:
    solver.addRow(-highspy.kHighsInf, upper, len(columns), columns.astype(np.int32), values)


def _known(among: list[int], start: Mix, n: int) -> highspy.HighsSolution:
    """What the solver begins with."""
    columns = np.zeros(2 * n + 1)
    columns[0] = start.value
    for number, part in zip(start.chosen, start.parts.tolist(), strict=True):
        at = among.index(number)
        columns[1 + at], columns[1 + n + at] = part, 1.0
    solution = highspy.HighsSolution()
    solution.col_value = columns.tolist()
    return solution
