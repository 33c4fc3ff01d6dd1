"""Have a method compiled before ranks wait for each other: on the first run ever on a machine that takes many seconds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from weft.sparse.compression import Compression
from weft.sparse.feedback import ErrorFeedback
from weft.sparse.memory import converse
from weft.sparse.selection import SMALL

WORKERS = 4
CALLS = 3
"""The first ones know nothing of earlier ones, and take other ways."""


@cache
def compile_method(compression: Compression) -> None:
    """Reduce some numbers in memory, so that nothing is left to be compiled."""
    teams = 1 if compression.teams == 1 else 2
    settings = replace(compression, teams=teams, exchange="auto" if teams == 1 else compression.exchange)
    workers = [ErrorFeedback(settings, rank, WORKERS) for rank in range(WORKERS)]
    draw = np.random.default_rng(0)
    for _ in range(CALLS):
        gradients = [draw.normal(size=3 * WORKERS * SMALL).astype(np.float32) for _ in workers]
        done = converse([worker.part(gradient) for worker, gradient in zip(workers, gradients, strict=True)])
        done.results[0].dense(len(gradients[0]))
