"""``--workers N``: so many processes of ourselves on this machine, over loopback.

Importing PyTorch takes a processor several seconds, so on Linux we do it once and fork the workers.

Rank 0's output is ours; what the others write goes to standard error behind their rank. When one fails, the others have a few
seconds to say what they saw, and all end. Workers die with us, however we die. Ctrl-C becomes SIGTERM for them: one that is not
training yet ends without a word, the others write a checkpoint. A second Ctrl-C kills.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

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
class Child:
    """A process that was forked, as ``subprocess`` would show it."""

    pid: int
    returncode: int | Any = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


@dataclass(slots=True)
class _Worker:
    rank: int
    process: Child | subprocess.Popen[bytes]
    output: Prefixed
    pipe: int | None
    """where its output comes from; rank 0 has ours"""

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


Command = Callable[[Sequence[str]], int]


def launched(arguments: Sequence[str], count: int, command: Command) -> int:
    """Run ``weft`` with these arguments as every worker; the exit code of the first that failed, or 0.

    ``command`` is the command line itself: what takes arguments and returns an exit code.
    """
    forks = sys.platform == "linux"
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before anything starts threads, which a fork would not have
    if forks:
        import weft.training.job  # noqa: F401 - and all that it imports
    workers: list[_Worker] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for rank in range(count):
            pipe, end = os.pipe() if rank else (None, None)
            variables = _variables(rank, count, listener)
            if forks:
                unneeded = [worker.pipe for worker in workers] + [pipe] + ([listener.fileno()] if rank else [])
                process: Child | subprocess.Popen[bytes] = _forked(
                    partial(command, arguments), variables, end, unneeded
                )
            else:
                process = _spawned(arguments, variables, end, () if rank else (listener.fileno(),))
            if end is not None and pipe is not None:
                os.close(end)
                os.set_blocking(pipe, False)
            output = Prefixed(f"[{rank}] ", lambda data: write_all(_STANDARD_ERROR, data))
            workers.append(_Worker(rank, process, output, pipe))
    return _Watch(workers).to_the_end()


def _variables(rank: int, count: int, listener: socket.socket) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(listener.getsockname()[1]),
        "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo"),
        LAUNCHER: str(os.getpid()),
        LISTENER: str(listener.fileno()),
    }


def _spawned(
    arguments: Sequence[str], variables: dict[str, str], end: int | None, kept: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - it is ourselves
        [sys.executable, "-P", "-m", "weft", *arguments],
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
        stdout=end,
        stderr=end,
        start_new_session=True,  # so that Ctrl-C comes to us alone, and we decide
        pass_fds=kept,
    )


def _forked(
    work: Callable[[], int], variables: dict[str, str], end: int | None, unneeded: Sequence[int | None]
) -> Child:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Child(pid)
    code = 1
    try:
        os.setsid()  # so that Ctrl-C comes to the launcher alone, which decides
        os.environ.update(variables)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if end is not None:
            os.dup2(end, 1)
            os.dup2(end, 2)
        for number in (end, *unneeded):
            if number is not None:
                os.close(number)
        code = _as_worker(work)
    finally:
        os._exit(code)


def _as_worker(work: Callable[[], int]) -> int:
    """The command, and all that Python does at its end; the exit code."""
    code = 1
    try:
        code = work()
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    return code


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
