"""When a rank is lost while the network is probed: every rank says for whom it waits, so that all find out who is silent."""

from __future__ import annotations

import time

from weft.errors import PeerError
from weft.runtime.threads import OutOfTimeError, in_time
from weft.runtime.transport import Transport, TransportError

PATIENCE = 3.0
"""seconds in which the others must have said for whom they wait"""


def probe_error(transport: Transport, error: TransportError) -> PeerError:
    """What this rank raises: who waits for whom, and who says nothing. The transport is given up, which wakes the others."""
    here, board = transport.rank, transport.board
    said: dict[int, int] = {here: error.peer}
    problem = ""

    def listen() -> None:
        board.post(f"lost/{here}", str(error.peer))
        transport.abort()
        ends = time.monotonic() + PATIENCE
        while (missing := [rank for rank in range(transport.size) if rank not in said]) and time.monotonic() < ends:
            texts = board.read([f"lost/{rank}" for rank in missing])
            said.update({rank: int(text) for rank, text in zip(missing, texts, strict=True) if text is not None})
            time.sleep(0.05)

    try:
        in_time(listen, PATIENCE + 1.0)
    except (OutOfTimeError, Exception):
        problem = "; the store that the ranks share is gone or does not answer"
        transport.abort()
    # Who says for whom it waits is alive. Where all are, the two ends of what was lost are to blame.
    silent = tuple(rank for rank in range(transport.size) if rank not in said)
    culprits = silent or tuple(sorted({here, error.peer}))
    if problem:
        culprits = (error.peer,) if board.keeper is None else (board.keeper,)
    names = ", ".join(f"rank {rank}" for rank in culprits)
    chain = "; ".join(f"rank {rank} waits for rank {peer}" for rank, peer in sorted(said.items()))
    return PeerError(
        f"{chain}, while the network is probed: {error.reason}{problem}; see what became of {names}",
        culprits,
        () if problem else silent,
        waits=sorted(said.items()),
    )
