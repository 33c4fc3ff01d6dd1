"""The process outside: it starts the one inside, gives it a task, passes signals on, and waits for the answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from weft.errors import EmulationError

Progress = Callable[[int, int], None]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NET_ADMIN, _SYS_ADMIN = 1 << 12, 1 << 21


def is_privileged() -> bool:
    """Whether namespaces can be made without a user namespace around them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16) & (_NET_ADMIN | _SYS_ADMIN) == _NET_ADMIN | _SYS_ADMIN
    return False


def start_inside(module: str, arguments: Sequence[str] = (), **options: Any) -> subprocess.Popen[bytes]:
    """The main function of a module in fresh namespaces, deaf to the terminal's signals."""
    user = [] if is_privileged() else ["--user", "--map-root-user"]
    spaces = ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--"]
    entry = f"import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; main()"
    package = str(Path(__file__).parent.parent.parent)
    # Without -P the current folder would come first, and a json.py in it would be taken for the library's.
    words = [*spaces, sys.executable, "-P", "-c", entry, package, *arguments]
    return subprocess.Popen(words, start_new_session=True, **options)  # noqa: S603 - our own words


def run_inside(task: Mapping[str, Any], progress: Progress | None = None) -> int:
    """Have a task done inside; the exit code of the whole. ``progress`` is told how much of the network is built."""
    hearing, control = os.pipe()
    reading, writing = os.pipe()
    with (
        tempfile.TemporaryFile() as file,
        os.fdopen(control, "wb", buffering=0) as line,
        os.fdopen(reading, "rb") as answers,
        _Signals(line.fileno()) as signals,
    ):
        file.write(json.dumps(task).encode())
        file.seek(0)
        try:
            files = [file.fileno(), writing]
            arguments = [str(number) for number in files]
            signals.process = start_inside("weft.emulation.inside", arguments, stdin=hearing, pass_fds=files)
        finally:
            os.close(hearing)
            os.close(writing)
        with signals.process as process:
            code = _code(answers, progress)
    if code is not None:
        return code
    if signals.seen:
        return 128 + signals.seen[0]
    raise EmulationError(
        f"the process inside ended unexpectedly (code {process.returncode}); weft emulate --check may say what is missing"
    )


def _code(answers: Iterable[bytes], progress: Progress | None) -> int | None:
    """The exit code among the answers; none if they end before."""
    for line in answers:
        answer = json.loads(line)
        if "error" in answer:
            raise EmulationError(answer["error"])
        if "code" in answer:
            return int(answer["code"])
        if progress is not None:
            progress(answer["done"], answer["whole"])
    return None


class _Signals:
    """While it is entered, signals are passed on as bytes; a second one ends everything at once."""

    def __init__(self, control: int) -> None:
        self.seen: list[int] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._control = control
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        # Other threads cannot receive signals; who emulates in one must end it otherwise.
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.getsignal(number)
                # Who told us to ignore a signal, as nohup does, means it.
                if self._before[number] is not signal.SIG_IGN:
                    signal.signal(number, self._forward)
        return self

    def __exit__(self, *_: object) -> None:
        for number, action in self._before.items():
            signal.signal(number, action)

    def _forward(self, number: int, _: FrameType | None) -> None:
        self.seen.append(number)
        if len(self.seen) > 1 and self.process is not None:
            self.process.kill()
        else:
            with suppress(BrokenPipeError):
                os.write(self._control, bytes([number]))
