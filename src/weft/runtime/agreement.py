"""Before the first byte moves, all ranks compare what they are about to execute."""

from __future__ import annotations

import time
from collections.abc import Callable

from weft.errors import AgreementError
from weft.runtime.transport import Transport, TransportError

POLLED_FIRST, POLLED_LAST = 0.0005, 0.05
"""Seconds between two looks at the board, at first and in the long run."""


def agree(transport: Transport, number: int, subject: str, seconds: float, stopped: Callable[[], bool]) -> None:
    """Return when every rank has put up the same subject under this number; raise on all ranks if they differ."""
    board, ends, pause = transport.board, time.monotonic() + seconds, POLLED_FIRST
    said = {transport.rank: subject}
    board.post(f"subject/{number}/{transport.rank}", subject)
    while len(said) < transport.size and not stopped():
        missing = [rank for rank in range(transport.size) if rank not in said]
        texts = board.read([f"subject/{number}/{rank}" for rank in missing])
        said |= {rank: text for rank, text in zip(missing, texts, strict=True) if text is not None}
        if len(said) < transport.size:
            if time.monotonic() > ends:
                raise TransportError(min(set(range(transport.size)) - set(said)), "not joined in time", late=True)
            time.sleep(pause)
            pause = min(2 * pause, POLLED_LAST)
    if any(text != subject for text in said.values()):
        raise _disagreement(transport.rank, said)


def _disagreement(rank: int, said: dict[int, str]) -> AgreementError:
    groups: dict[str, list[int]] = {}
    for speaker, text in sorted(said.items()):
        groups.setdefault(text, []).append(speaker)
    lines = [f"rank{'s' if len(who) > 1 else ''} {', '.join(map(str, who))}: {text}" for text, who in groups.items()]
    advice = "have rank 0 plan and hand its plan to the others, and use the same tensors in the same order everywhere"
    return AgreementError(
        f"rank {rank}: the ranks are about to execute different things; {advice}\n  " + "\n  ".join(lines), said
    )
