"""The roll call: who is there, and how far?

Held when an execution takes longer than measured times allow. A rank that does not answer is the failure. If all answer and
one has not joined yet, it is only late (it writes a checkpoint, or evaluates), and the others may go on waiting for it.

Several ranks may ask at a time, each one question. All questions are one note, to which everybody who asks adds its own until
it is answered; so none is lost for long if two are put up at once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from weft.runtime.transport import Transport
from weft.runtime.vigil import LEFT_OUT

ROLL = "roll"
NOT_MISSED = sys.maxsize
"""what a rank has launched that others go on without"""


class RollCall:
    """One rank's part in roll calls: it answers when asked, and may ask."""

    def __init__(self, transport: Transport, launched: Callable[[], int]) -> None:
        self._board, self._rank, self._size = transport.board, transport.rank, transport.size
        self._launched = launched
        self._answered: dict[str, str] = {}
        """by who has asked, the last question"""

    def answer(self, asked: str | None) -> None:
        """Say how many executions this rank has launched, once for every question."""
        for asker, question in _questions(asked).items():
            if self._answered.get(asker) != question:
                self._board.post(f"{ROLL}/{question}/{self._rank}", str(self._launched()))
                self._answered[asker] = question

    def hold(self, question: str, seconds: float) -> dict[int, int]:
        """How many executions every rank has launched that answers in time. All who ask the same share the answers."""
        ends = time.monotonic() + seconds
        heard: dict[int, int] = {}
        while (missing := [rank for rank in range(self._size) if rank not in heard]) and time.monotonic() < ends:
            self._ask(question)
            for rank, text in zip(missing, self._board.read([f"{LEFT_OUT}/{r}" for r in missing]), strict=True):
                if text is not None:
                    heard[rank] = NOT_MISSED
            texts = self._board.read([f"{ROLL}/{question}/{rank}" for rank in missing])
            heard |= {rank: int(text) for rank, text in zip(missing, texts, strict=True) if text is not None}
            time.sleep(0.05)
        return heard

    def _ask(self, question: str) -> None:
        """Put up our question beside those of others, and answer them all."""
        questions = _questions(self._board.read([ROLL])[0])
        if questions.get(str(self._rank)) != question:
            questions[str(self._rank)] = question
            self._board.post(ROLL, json.dumps(questions))
        self.answer(json.dumps(questions))


def _questions(asked: str | None) -> dict[str, str]:
    found: dict[str, str] = {} if asked is None else json.loads(asked)
    return found
