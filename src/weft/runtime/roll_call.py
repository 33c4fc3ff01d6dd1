"""The roll call: who is there, and how far?

Held when an execution takes longer than measured times allow. A rank that does not answer is the failure. If all answer and
one has not joined yet, it is only late (it writes a checkpoint, or evaluates), and the others may go on waiting for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from weft.runtime.transport import Transport

ROLL = "roll"


class RollCall:
    """One rank's part in roll calls: it answers when asked, and may ask. Used by one thread at a time."""

    def __init__(self, transport: Transport, launched: Callable[[], int]) -> None:
        self._board, self._rank, self._size = transport.board, transport.rank, transport.size
        self._launched = launched
        self._answered: str | None = None

    def answer(self, asked: str | None) -> None:
        """Say how many executions this rank has launched, once for every question."""
        if asked is not None and asked != self._answered:
            self._board.post(f"{ROLL}/{asked}/{self._rank}", str(self._launched()))
            self._answered = asked

    def hold(self, question: str, seconds: float) -> dict[int, int]:
        """How many executions every rank has launched that answers in time. All who ask the same share the answers."""
        ends = time.monotonic() + seconds
        heard: dict[int, int] = {}
        while (missing := [rank for rank in range(self._size) if rank not in heard]) and time.monotonic() < ends:
            self._board.post(ROLL, question)
            self.answer(question)
            texts = self._board.read([f"{ROLL}/{question}/{rank}" for rank in missing])
            heard |= {rank: int(text) for rank, text in zip(missing, texts, strict=True) if text is not None}
            time.sleep(0.05)
        return heard
