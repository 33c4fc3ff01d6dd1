"""What every rank says when something failed, and what follows from all of it together."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import PeerError
from weft.runtime.execution import Execution
from weft.runtime.vigil import Vigil

MOST_LINES = 12
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


@dataclass(frozen=True, slots=True)
class Wait:
    """A rank waits for message number ``position`` from a peer, or for ``reason`` although that has arrived."""

    peer: int
    position: int
    what: str
    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The state of one rank: how many executions it has launched, and of the oldest that still runs, what it waits for."""

    rank: int
    launched: int
    number: int | None
    """the execution that ``waits`` is about; None where none is running"""
    subject: str
    waits: tuple[Wait, ...]
    sent: Mapping[int, int]
    """how many messages were given to each channel"""
    lost: tuple[int, ...]
    """peers whose connection was closed"""

    def to_text(self) -> str:
        waits = [[w.peer, w.position, w.what, w.seconds, w.reason] for w in self.waits]
        sent = {str(peer): count for peer, count in self.sent.items()}
        return json.dumps([self.rank, self.launched, self.number, self.subject, waits, sent, self.lost])

    @staticmethod
    def parse(text: str) -> Report:
        rank, launched, number, subject, waits, sent, lost = json.loads(text)
        counts = {int(peer): count for peer, count in sent.items()}
        return Report(rank, launched, number, subject, tuple(Wait(*w) for w in waits), counts, tuple(lost))

    @staticmethod
    def of_left_out(rank: int) -> Report:
        """Of a rank that is gone, and that nobody misses."""
        return Report(rank, sys.maxsize, None, "nothing", (), {}, ())


def report_of(
    rank: int, launched: int, number: int | None, subject: str, execution: Execution | None, lost: Sequence[int],
    vigils: Sequence[Vigil] = (),
) -> Report:  # fmt: skip
    """The state of this rank, now."""
    if execution is None:
        kept = [Wait(v.peer, 0, v.what, round(v.term.passed(), 3)) for v in vigils if v.peer is not None]
        return Report(rank, launched, number, subject, tuple(kept), {}, tuple(lost))
    now = time.monotonic()
    waits = []
    for channel in execution.channels:
        if channel.position < len(channel.messages):
            message = channel.messages[channel.position]
            what = execution.program.chunks(message.transfer)
            waits.append(Wait(channel.peer, channel.position, what, round(now - channel.since, 3), channel.waits_for))
    return Report(rank, launched, number, subject, tuple(waits), dict(execution.posted_sends), tuple(lost))


@dataclass(frozen=True, slots=True)
class Findings:
    """Who is to blame, as far as the reports show."""

    silent: tuple[int, ...]
    not_joined: tuple[int, ...]
    different: tuple[int, ...]
    """ranks that execute something else under the same number"""
    cut: tuple[tuple[int, int], ...]
    """pairs between which a message was sent and has not arrived"""

    @property
    def culprits(self) -> tuple[int, ...]:
        return self.silent or self.not_joined or _most_involved(self.cut)


def _most_involved(cut: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The ranks that are an end of most of these pairs: of one pair both, of several that share a rank this one."""
    ends = Counter(rank for pair in set(cut) for rank in pair)
    return tuple(sorted(rank for rank, count in ends.items() if count == max(ends.values())))


def failed_execution(mine: Report, reports: Mapping[int, Report]) -> int:
    """The number of the execution that failed: the earliest that runs anywhere. Who is ahead waits because of those behind."""
    numbers = [report.number for report in (mine, *reports.values()) if report.number is not None]
    return min(numbers, default=mine.launched)


def findings(mine: Report, reports: Mapping[int, Report], size: int) -> Findings:
    """What the reports of all who answered show about the execution that failed here."""
    here = failed_execution(mine, reports)
    silent = tuple(rank for rank in range(size) if rank not in reports)
    not_joined = tuple(r.rank for r in reports.values() if r.launched < here)
    different = tuple(
        r.rank for r in reports.values() if r.number == mine.number is not None and r.subject != mine.subject
    )
    cut = []
    for report in reports.values():
        for wait in report.waits:
            peer = reports.get(wait.peer)
            if peer is not None and report.number is not None and not wait.reason and _gave(peer, report, wait):
                cut.append((wait.peer, report.rank))
    return Findings(silent, tuple(sorted(not_joined)), tuple(sorted(different)), tuple(cut))


def _gave(peer: Report, report: Report, wait: Wait) -> bool:
    """Whether a peer has given the message to its channel that somebody waits for."""
    assert report.number is not None
    if peer.number != report.number:
        # A peer that has ended this execution has given all of it; one that is still behind has given nothing.
        return peer.launched >= report.number and (peer.number is None or peer.number > report.number)
    return peer.sent.get(report.rank, 0) > wait.position


def peer_error(
    mine: Report, reports: Mapping[int, Report], size: int, cause: str, board: str, keeper: int | None
) -> PeerError:
    """The error that a rank raises: the culprits first, then who waits for whom.

    ``board`` says why the reports may not be complete: then the rank that keeps the board is the one to look at.
    """
    found = findings(mine, reports, size)
    number = failed_execution(mine, reports)
    subject = _DIGEST.sub(r"\1", mine.subject)
    doing = subject if mine.number is None and mine.waits else f"execution {number} ({subject})"
    lines = [f"rank {mine.rank}, {doing}: {cause}"]
    lines += _blamed(found, mine, reports, board)
    waiting = [
        f"rank {report.rank} waits for rank {wait.peer}: {wait.what}"
        + ("" if report.number is None else f", message {wait.position + 1} of that channel")
        + f", for {wait.seconds:.1f} s"
        + (f" (arrived; waits for {wait.reason})" if wait.reason else "")
        for report in sorted(reports.values(), key=lambda r: (r.rank != mine.rank, r.rank))
        for wait in report.waits
    ]
    lines += waiting[:MOST_LINES] + (
        [f"and {len(waiting) - MOST_LINES} waits more"] if len(waiting) > MOST_LINES else []
    )
    lines.append("this transport cannot be used any more: make a new process group, or start again")
    waits = [(report.rank, wait.peer) for report in reports.values() for wait in report.waits]
    culprits = found.culprits or tuple(sorted({peer for report in reports.values() for peer in report.lost}))
    if not culprits and mine.number is None and mine.waits:
        culprits = (max(mine.waits, key=lambda wait: wait.seconds).peer,)  # all are alive, and this one is slow
    if board:
        culprits = mine.lost if keeper is None else (keeper,)
    silent = () if board else found.silent
    return PeerError("\n  ".join(lines), culprits, silent, found.not_joined, sorted(waits))


def _blamed(found: Findings, mine: Report, reports: Mapping[int, Report], board: str) -> list[str]:
    number = failed_execution(mine, reports)
    lines = []
    if board:
        lines.append(board)
        lines += [f"rank {peer} has closed its connection to rank {mine.rank}" for peer in mine.lost]
        return lines
    lines += [
        f"rank {rank} does not answer: it is dead, stopped or cut off, or its interpreter hangs"
        for rank in found.silent
    ]
    lines += [
        f"rank {rank} has not joined: it is alive, and has launched {reports[rank].launched} of {number} executions"
        for rank in found.not_joined
    ]
    lines += [f"rank {b} waits for what rank {a} has sent: lost or stuck between the two" for a, b in found.cut]
    return lines
