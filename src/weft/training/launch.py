"""``--workers N``: so many processes of ourselves on this machine, over loopback.

Rank 0's output is ours; what the others write goes to standard error behind their rank. When one fails, the others have a few
seconds to say what they saw, and all end. Workers die with us, however we die. Ctrl-C becomes SIGTERM for them: one that is not
training yet ends without a word, the others write a checkpoint. A second Ctrl-C kills.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from weft.emulation.output import Prefixed, write_all
from weft.training.environment import LAUNCHER, LISTENER, is_launched

GRACE = 10.0
LAST_WORDS = 5.0
_TOGETHER = 0.2
"""Workers that end within so many seconds ended together, and one that was killed is the cause."""
_PR_SET_PDEATHSIG = 1
_STANDARD_ERROR = 2


def die_with_launcher() -> None:
    """Have the kernel end this worker when the process that started it ends."""
    if not is_launched(os.environ):
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(os.environ[LAUNCHER]):
        os._exit(1)


@dataclass(slots=True)
class _Worker:
    rank: int
    process: subprocess.Popen[bytes]
    output: Prefixed
    pipe: int | None
    """where its output comes from; rank 0 has ours"""

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def launched(arguments: Sequence[str], count: int) -> int:
    """Run ``weft`` with these arguments as every worker; the exit code of the first that failed, or 0."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        workers = [_started(arguments, rank, count, listener) for rank in range(count)]
    return _Watch(workers).to_the_end()


def _started(arguments: Sequence[str], rank: int, count: int, listener: socket.socket) -> _Worker:
    variables = {
        "RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(listener.getsockname()[1]),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo"),
        LAUNCHER: str(os.getpid()),
        LISTENER: str(listener.fileno()),
    }
    pipe, end = os.pipe() if rank else (None, None)
    process = subprocess.Popen(  # noqa: S603 - it is ourselves
        [sys.executable, "-P", "-m", "weft", *arguments],
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=end,
        stderr=end,
        start_new_session=True,  # so that Ctrl-C comes to us alone, and we decide
        pass_fds=() if rank else (listener.fileno(),),
    )
    if end is not None and pipe is not None:
        os.close(end)
        os.set_blocking(pipe, False)
    return _Worker(rank, process, Prefixed(f"[{rank}] ", lambda data: write_all(_STANDARD_ERROR, data)), pipe)


class _Watch:
    """Passes on output and signals until every worker has ended."""

    def __init__(self, workers: Sequence[_Worker]) -> None:
        self._living = list(workers)
        self._selector = selectors.DefaultSelector()
        self._code = 0
        self._signals: list[int] = []
        self._said: set[str] = set()
        self._deadlines: list[tuple[float, int]] = []
        for worker in workers:
            if worker.pipe is not None:
                self._selector.register(worker.pipe, selectors.EVENT_READ, worker)

    def to_the_end(self) -> int:
        kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {kind: signal.signal(kind, lambda number, _: self._signals.append(number)) for kind in kinds}
        try:
            while self._living:
                self._listen(0.05)
                self._obey()
                self._bury()
                self._act()
        finally:
            self._send(signal.SIGKILL)
            for kind, old in before.items():
                signal.signal(kind, old)
        return self._code

    def _listen(self, seconds: float) -> None:
        """Pass on what workers write, for so long at most."""
        if not self._selector.get_map():
            time.sleep(seconds)
            return
        for key, _ in self._selector.select(seconds):
            self._read(key.data)

    def _read(self, worker: _Worker) -> None:
        assert worker.pipe is not None
        with suppress(BlockingIOError):
            while data := os.read(worker.pipe, 1 << 16):
                worker.output.feed(data)
            self._close(worker)

    def _close(self, worker: _Worker) -> None:
        if worker.pipe is not None:
            worker.output.finish()
            self._selector.unregister(worker.pipe)
            os.close(worker.pipe)
            worker.pipe = None

    def _obey(self) -> None:
        """The first signal asks everybody to stop; the second ends everybody at once."""
        heard, self._signals = self._signals, []
        for number in heard:
            self._send(signal.SIGKILL if self._code >= 128 else signal.SIGTERM)
            self._code = 128 + number

    def _ended(self) -> list[_Worker]:
        return [worker for worker in self._living if worker.process.poll() is not None]

    def _bury(self) -> None:
        ended = self._ended()
        if any(worker.process.returncode for worker in ended) and not self._code:
            self._listen_for(_TOGETHER)
            ended = self._ended()
        for worker in ended:
            if worker.pipe is not None:
                self._read(worker)
                self._close(worker)
            self._living.remove(worker)
        failed = [worker for worker in ended if worker.process.returncode]
        if failed and not self._code:
            self._fail(min(failed, key=lambda worker: worker.process.returncode))
        elif self._code >= 128 and any(worker.process.returncode < 0 for worker in failed):
            # It was not training yet, or was killed: the others cannot go on without it.
            self._send(signal.SIGKILL)
            self._say("interrupted at once: no new checkpoint was written")

    def _listen_for(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._listen(left)

    def _fail(self, worker: _Worker) -> None:
        code = worker.process.returncode
        self._code = code if code > 0 else 128 - code
        if code not in (1, 2):
            how = f"exit code {code}" if code > 0 else f"signal {-code} ({signal.Signals(-code).name})"
            self._say(f"rank {worker.rank} ended with {how}; the others end too")
        now = time.monotonic()
        self._deadlines = [(now + GRACE, signal.SIGTERM), (now + GRACE + LAST_WORDS, signal.SIGKILL)]

    def _act(self) -> None:
        while self._deadlines and time.monotonic() >= self._deadlines[0][0]:
            self._send(self._deadlines.pop(0)[1])

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            write_all(_STANDARD_ERROR, f"weft train: {text}\n".encode())

    def _send(self, number: int) -> None:
        for worker in self._living:
            worker.send(number)
