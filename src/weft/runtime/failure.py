"""After a failure: say what this rank sees, wake everybody, hear the others, and explain."""

from __future__ import annotations

import contextlib
import time
from threading import Lock

from weft.errors import ExecutionError
from weft.runtime.agreement import disagreement
from weft.runtime.reports import Report, findings, peer_error
from weft.runtime.threads import OutOfTimeError, in_time
from weft.runtime.transport import Transport
from weft.runtime.vigil import LEFT_OUT

ALARM = "alarm"


class Failure:
    """One transport's failure; there is only one, for a transport that failed is not used again."""

    def __init__(self, transport: Transport, report: Report, cause: str, patience: float) -> None:
        self.report, self.cause = report, cause
        self._transport = transport
        self._ends = time.monotonic() + patience
        self._lock = Lock()
        self._reports: dict[int, Report] = {report.rank: report}
        self._board_problem = ""
        self._heard = False

    def announce(self) -> None:
        """Put up our report, sound the alarm, and close all connections, so that the peers wake up as well."""
        if self._transport.size > 1:
            with contextlib.suppress(OutOfTimeError, Exception):
                in_time(self._post, self._left() / 2)
        self._transport.abort()

    def _post(self) -> None:
        self._transport.board.post(f"report/{self.report.rank}", self.report.to_text())
        self._transport.board.post(ALARM, str(self.report.rank))

    def error(self) -> ExecutionError:
        """What happened, as far as the ranks that answer can tell; listens to them when first called."""
        with self._lock:
            if not self._heard:
                self._listen()
                self._heard = True
        different = findings(self.report, self._reports, self._transport.size).different
        if different:
            said = {rank: report.subject for rank, report in self._reports.items()}
            return disagreement(self.report.rank, said)
        keeper = self._transport.board.keeper
        return peer_error(self.report, self._reports, self._transport.size, self.cause, self._board_problem, keeper)

    def _left(self) -> float:
        return max(0.0, self._ends - time.monotonic())

    def _listen(self) -> None:
        board, ranks = self._transport.board, range(self._transport.size)
        while missing := [rank for rank in ranks if rank not in self._reports]:
            keys = [f"{kind}/{rank}" for kind in ("report", LEFT_OUT) for rank in missing]
            try:
                texts = in_time(lambda keys=keys: board.read(keys), self._left() + 0.1)  # type: ignore[misc]
            except (OutOfTimeError, Exception) as problem:
                self._board_problem = _board_problem(self.report.rank, board.keeper, problem)
                return
            found = dict(zip(keys, texts, strict=True))
            for rank in missing:
                if (text := found[f"report/{rank}"]) is not None:
                    self._reports[rank] = Report.parse(text)
                elif found[f"{LEFT_OUT}/{rank}"] is not None:
                    self._reports[rank] = Report.of_left_out(rank)
            if not self._left():
                return
            time.sleep(0.02)


def _board_problem(rank: int, keeper: int | None, problem: Exception) -> str:
    who = "the process that keeps it" if keeper is None else f"rank {keeper}, which keeps it,"
    what = "does not answer" if isinstance(problem, OutOfTimeError) else "is gone"
    return f"the store that the ranks share {what}: {who} is dead, stopped or cut off, or rank {rank} itself is cut off"
