"""After a failure: say what this rank sees, wake everybody, hear the others, and explain."""

from __future__ import annotations

import contextlib
import time
from threading import Lock

from weft.errors import PeerError
from weft.runtime.reports import Report, peer_error
from weft.runtime.threads import OutOfTimeError, in_time
from weft.runtime.transport import Transport

PATIENCE = 2.0
"""Seconds in which the others' reports are awaited."""
ALARM = "alarm"


class Failure:
    """One transport's failure; there is only one, for a transport that failed is not used again."""

    def __init__(self, transport: Transport, report: Report, cause: str, patience: float) -> None:
        self.report, self.cause = report, cause
        self._transport, self._patience = transport, patience
        self._lock = Lock()
        self._reports: dict[int, Report] = {report.rank: report}
        self._board_problem = ""
        self._heard = False

    def announce(self) -> None:
        """Put up our report, sound the alarm, and close all connections, so that the peers wake up as well."""
        board, rank = self._transport.board, self.report.rank
        if self._transport.size > 1:
            with contextlib.suppress(OutOfTimeError, Exception):
                in_time(lambda: board.post(f"report/{rank}", self.report.to_text()), self._patience / 2)
                in_time(lambda: board.post(ALARM, str(rank)), self._patience / 2)
        self._transport.abort()

    def error(self) -> PeerError:
        """What happened, as far as the ranks that answer can tell; waits for them when first called."""
        with self._lock:
            if not self._heard:
                self._listen()
                self._heard = True
        keeper = self._transport.board.keeper
        return peer_error(self.report, self._reports, self._transport.size, self.cause, self._board_problem, keeper)

    def _listen(self) -> None:
        ends = time.monotonic() + self._patience
        ranks = range(self._transport.size)
        while (missing := [r for r in ranks if r not in self._reports]) and (left := ends - time.monotonic()) > 0:
            keys = [f"report/{rank}" for rank in missing]
            try:
                texts = in_time(lambda keys=keys: self._transport.board.read(keys), left + 0.1)  # type: ignore[misc]
            except (OutOfTimeError, Exception) as problem:
                self._board_problem = _board_problem(self._transport.board.keeper, problem)
                return
            self._reports |= {r: Report.parse(t) for r, t in zip(missing, texts, strict=True) if t is not None}
            time.sleep(0.02)


def _board_problem(keeper: int | None, problem: Exception) -> str:
    who = "the process that keeps it" if keeper is None else f"rank {keeper}, which keeps it,"
    what = "does not answer" if isinstance(problem, OutOfTimeError) else "is gone"
    return f"the store that the ranks share {what}: {who} is dead, stopped or cut off"
