"""What a message and a number in it take on this cluster, measured: by these SparDL's number of teams is chosen.

A number is not only sent: whoever gets it opens the message, adds it up, selects from the sum and packs that. Where links are
fast that takes as long.
"""

from __future__ import annotations

from statistics import median

import numpy as np
import torch.distributed as dist

from weft.runtime.communicator import Communicator
from weft.runtime.conversing import launch_part
from weft.runtime.turns import slowest, timed
from weft.sparse.pairs import Pairs, added
from weft.sparse.rounds import Part, Round
from weft.sparse.selection import strongest_pairs
from weft.sparse.teams import BYTES_PER_NUMBER, AlphaBeta
from weft.sparse.wire import Message, decode, encoded

SMALL, LARGE = 64, 500_000
"""bytes"""
ROUNDS, TURNS = 4, 3
PAIRS = 100_000


def measured_alpha_beta(us: Communicator, group: dist.ProcessGroup | None = None) -> AlphaBeta:
    """Those of rounds in which every rank sends to the one half of the ranks away, on the slowest rank; all ranks get the same.

    That is SparDL's first and longest round; ``weft.sparse.teams.alpha_beta`` computes the same from a network.
    """
    if us.transport.size == 1:
        return AlphaBeta(0.0, 0.0)
    small, large = (_round_seconds(us, nbytes, group) for nbytes in (SMALL, LARGE))
    sending = BYTES_PER_NUMBER * max(0.0, large - small) / (LARGE - SMALL)
    return AlphaBeta(small, sending + _handling_seconds(group))


def _round_seconds(us: Communicator, nbytes: int, group: dist.ProcessGroup | None) -> float:
    def work() -> None:
        part = _shifts(us.transport.rank, us.transport.size, nbytes)
        launch_part(us, part, f"{ROUNDS} shifts of {nbytes} bytes", here=True).result()

    timed(work, group)  # connects
    return median(slowest([timed(work, group) for _ in range(TURNS)], group)) / ROUNDS


def _handling_seconds(group: dist.ProcessGroup | None) -> float:
    """For one number that has come, index or value, on all ranks at once."""
    draw = np.random.default_rng(0)
    two = [
        Pairs((100 * np.arange(PAIRS) + draw.integers(0, 100, PAIRS)).astype(np.int32), draw.random(PAIRS, np.float32))
        for _ in range(2)
    ]

    span = (0, 100 * PAIRS)

    def work() -> None:
        blocks, _ = decode(encoded([two[0]], [span], "float32", None).data, [span])
        strongest_pairs(added(blocks[0], two[1]), PAIRS)

    work()  # compiles
    return median(slowest([timed(work, group) for _ in range(TURNS)], group)) / (2 * PAIRS)


def _shifts(rank: int, ranks: int, nbytes: int) -> Part[None]:
    """Announced as SparDL's rounds are, or they would take longer."""
    far = (ranks + 1) // 2
    message, source = Message(np.zeros(nbytes, np.uint8), nbytes), (rank - far) % ranks
    for turn in range(ROUNDS):
        ahead = [] if turn else (ROUNDS - 1) * [(source, nbytes)]
        yield Round({(rank + far) % ranks: message}, {source: nbytes}, None, ahead)
