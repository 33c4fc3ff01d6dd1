"""Spacing: places close to where things want to be, with room between them."""

from __future__ import annotations

import numpy as np

from weft.report.shapes import Floats


def spaced(wanted: Floats, gaps: Floats) -> Floats:
    """The places nearest to the wanted ones (which are in order) that lie at least ``gaps[i]`` apart.

    Without the gaps this is the regression of a sequence that may only rise: neighbours in the wrong order are pooled.
    """
    shift = np.concatenate([[0.0], np.cumsum(gaps)])
    pools: list[tuple[float, int]] = []
    for value in (wanted - shift).tolist():
        total, count = value, 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:
            before = pools.pop()
            total, count = total + before[0], count + before[1]
        pools.append((total, count))
    means = [total / count for total, count in pools]
    placed: Floats = np.repeat(means, [count for _, count in pools]) + shift
    return placed
