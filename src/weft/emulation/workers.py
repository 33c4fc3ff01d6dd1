"""One process for every worker: started, watched, stopped; runs inside."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from weft.emulation.namespaces import inside
from weft.emulation.output import Prefixed

_AT_ONCE = 1 << 16


@dataclass(slots=True)
class Worker:
    """A running worker: its process leads a process group, its output comes through a pipe."""

    rank: int
    node: int
    name: str
    process: subprocess.Popen[bytes]
    pipe: int
    output: Prefixed
    pauses: int = field(default=0)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def title(self) -> str:
        return f"rank {self.rank} ({self.name})"

    def send(self, number: int) -> None:
        """A signal for the whole group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def pause(self, more: int) -> None:
        """One pause more, or one less; the worker stands still while there is any."""
        before, self.pauses = self.pauses, self.pauses + more
        if (before > 0) != (self.pauses > 0):
            self.send(signal.SIGSTOP if self.pauses else signal.SIGCONT)

    def read(self) -> bool:
        """Pass on what has been written; False at the end of the output."""
        while True:
            try:
                data = os.read(self.pipe, _AT_ONCE)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.output.feed(data)


def start_worker(
    rank: int,
    node: int,
    name: str,
    network: int,
    command: Sequence[str],
    environment: Mapping[str, str],
    write: Callable[[bytes], None],
) -> Worker:
    """Start the command in its namespace. Rank 0 keeps our standard output; everything else goes through the pipe."""
    pipe, end = os.pipe()
    os.set_blocking(pipe, False)
    try:
        with inside(network):
            process = subprocess.Popen(  # noqa: S603 - running the user's command is what we are for
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=None if rank == 0 else end,
                stderr=end,
                # Not a session of its own: Linux shares processors among sessions first, and a thread that is to answer
                # the network would wait for the turn of its worker instead of its own. Hosts do not have that.
                process_group=0,
            )
    finally:
        os.close(end)
    return Worker(rank, node, name, process, pipe, Prefixed(f"[{rank}] ", write))
