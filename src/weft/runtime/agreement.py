"""Before the first byte moves, all ranks compare what they are about to execute."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from weft.errors import AgreementError, ExecutionError
from weft.runtime.transport import Transport, TransportError

POLLED_FIRST, POLLED_LAST = 0.0005, 0.05
"""Seconds between two looks at the board, at first and in the long run."""


def agree(transport: Transport, number: int, subject: str, seconds: float, stopped: Callable[[], bool]) -> None:
    """Return when every rank has put up the same subject under this number; raise on all ranks if they differ."""
    board, ends, pause = transport.board, time.monotonic() + seconds, POLLED_FIRST
    said = {transport.rank: subject}
    key = subject_key(number)
    board.post(f"{key}/{transport.rank}", subject)
    board.post(key, subject)
    while len(said) < transport.size and not stopped():
        missing = [rank for rank in range(transport.size) if rank not in said]
        texts = board.read([f"{key}/{rank}" for rank in missing])
        said |= {rank: text for rank, text in zip(missing, texts, strict=True) if text is not None}
        if len(said) < transport.size:
            if time.monotonic() > ends:
                raise TransportError(min(set(range(transport.size)) - set(said)), "not joined in time", late=True)
            time.sleep(pause)
            pause = min(2 * pause, POLLED_LAST)
    if any(text != subject for text in said.values()):
        raise disagreement(transport.rank, said)


def shared(transport: Transport, number: int, make: Callable[[], str], seconds: float) -> str:
    """What rank 0 makes, on every rank. If it fails there, the others raise too, with its reason."""
    board, key = transport.board, f"text/{number}"
    if transport.rank == 0:
        try:
            text = make()
        except Exception as error:
            board.post(key, "!" + str(error))
            raise
        board.post(key, "=" + text)
        return text
    ends, pause = time.monotonic() + seconds, POLLED_FIRST
    while (note := board.read([key])[0]) is None:
        if time.monotonic() > ends:
            raise TransportError(0, "nothing to share in time", late=True)
        time.sleep(pause)
        pause = min(2 * pause, POLLED_LAST)
    if note.startswith("!"):
        raise ExecutionError(f"rank 0 could not do its part: {note[1:]}")
    return note[1:]


def subject_key(number: int) -> str:
    """Where a rank that wants to agree on an execution says on what, for those who think that they need not."""
    return f"subject/{number}"


def disagreement(rank: int, said: Mapping[int, str]) -> AgreementError:
    """The error that shows what each rank meant."""
    groups: dict[str, list[int]] = {}
    for speaker, text in sorted(said.items()):
        groups.setdefault(text, []).append(speaker)
    lines = [f"rank{'s' if len(who) > 1 else ''} {', '.join(map(str, who))}: {text}" for text, who in groups.items()]
    advice = "have rank 0 plan and hand its plan to the others, and use the same tensors in the same order everywhere"
    return AgreementError(
        f"rank {rank}: the ranks are about to execute different things; {advice}\n  " + "\n  ".join(lines), said
    )
