"""Ranks as processes on this machine, for tests of torch.distributed: what each asserts is asserted here by its exit code."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TESTS = Path(__file__).parent


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def check_all_end(
    commands: Sequence[tuple[list[str], dict[str, str]]], seconds: float, expected: Sequence[int]
) -> None:
    """Run all at once; they must end with these codes, and what they said is shown if they do not."""
    processes = [
        subprocess.Popen(command, env=_common() | own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command, own in commands
    ]
    try:
        told = [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    codes = [process.returncode for process in processes]
    assert codes == list(expected), f"{codes}\n" + "\n".join(told)


def check_ranks(
    script: str, size: int, *names: str, seconds: float = 300, killed: bool = False, **variables: str
) -> None:
    """Run these functions of a script on so many ranks; all must end well, except that the last one may be killed."""
    own = variables | {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    command = [sys.executable, "-W", "error", str(TESTS / "forked.py"), script, str(size), ",".join(names)]
    process = subprocess.Popen(
        command,
        env=_common() | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told = process.communicate(timeout=seconds)[0]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    expected = [0] * (size - killed) + [-signal.SIGKILL] * killed
    assert told.splitlines()[-1:] == [json.dumps(expected)], told


def _common() -> dict[str, str]:
    path = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path}
