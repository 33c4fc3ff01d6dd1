"""Linear programs, solved by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Solution:
    """The optimum: its value, the variables, and the price of every row."""

    value: float
    x: Floats
    prices: Floats


def minimised(
    cost: ArrayLike, matrix: Floats, row_lower: ArrayLike, row_upper: ArrayLike, lower: ArrayLike = 0.0
) -> Solution:
    """The least ``cost . x`` with ``row_lower <= matrix x <= row_upper`` and ``x >= lower``; it must exist."""
    rows, columns = matrix.shape
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = columns, rows
    program.col_cost_ = np.broadcast_to(np.asarray(cost, dtype=np.float64), columns).copy()
    program.col_lower_ = np.broadcast_to(np.asarray(lower, dtype=np.float64), columns).copy()
    program.col_upper_ = np.full(columns, highspy.kHighsInf)
    program.row_lower_ = np.broadcast_to(np.asarray(row_lower, dtype=np.float64), rows).copy()
    program.row_upper_ = np.broadcast_to(np.asarray(row_upper, dtype=np.float64), rows).copy()
    row, column = np.nonzero(matrix)
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int32)
    program.a_matrix_.index_ = column.astype(np.int32)
    program.a_matrix_.value_ = matrix[row, column]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(program)
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal, solver.modelStatusToString(
        solver.getModelStatus()
    )
    found = solver.getSolution()
    return Solution(solver.getInfo().objective_function_value, np.array(found.col_value), np.array(found.row_dual))
