"""The runtime on gloo, with every rank a process: results, and what the others say when one dies or stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from weft.collectives import butterfly, ring
from weft.network import full_mesh

SCRIPT = Path(__file__).parent / "gloo_rank.py"


class Ranks:
    """Processes of one group, and what they have said so far."""

    def __init__(self, size: int, mode: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(SCRIPT), mode],
                env=os.environ | common | {"RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]
        self.said: list[dict[str, Any]] = []
        self.errors = [""] * size
        self._readers = [Thread(target=self._read, args=(rank,)) for rank in range(size)]
        self._readers += [Thread(target=self._read_errors, args=(rank,)) for rank in range(size)]
        for reader in self._readers:
            reader.start()

    def _read(self, rank: int) -> None:
        stream = self.processes[rank].stdout
        assert stream is not None
        for line in stream:
            if line.startswith("{"):
                self.said.append(json.loads(line))

    def _read_errors(self, rank: int) -> None:
        stream = self.processes[rank].stderr
        assert stream is not None
        self.errors[rank] = stream.read()

    def saying(self, key: str, count: int, seconds: float = 60.0) -> dict[int, dict[str, Any]]:
        """By rank, what has this key, as soon as so many ranks have said it."""
        ends = time.monotonic() + seconds
        while len(found := {one["rank"]: one for one in list(self.said) if key in one}) < count:
            assert time.monotonic() < ends, f"only {sorted(found)} said {key!r}\n" + "\n".join(self.errors)
            time.sleep(0.02)
        return found

    def codes(self, ranks: list[int], seconds: float = 60.0) -> list[int]:
        ends = time.monotonic() + seconds
        return [self.processes[rank].wait(max(0.1, ends - time.monotonic())) for rank in ranks]

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for reader in self._readers:
            reader.join()
        for process in self.processes:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            process.stderr.close()


@contextmanager
def ranks(size: int, mode: str) -> Iterator[Ranks]:
    group = Ranks(size, mode)
    try:
        yield group
    finally:
        group.end()


def test_results_are_those_of_gloo_and_a_mismatch_shows_both_digests() -> None:
    with ranks(3, "results") as group:
        assert group.codes([0, 1, 2], 120) == [0, 0, 0], "\n".join(group.errors)
        told = group.saying("disagreement", 3)
        assert len(group.saying("good", 3)) == 3
    for one in told.values():
        assert ring(full_mesh(3)).digest in one["disagreement"]
        assert butterfly(full_mesh(3)).digest in one["disagreement"]


@pytest.mark.parametrize(("victim", "how"), [(2, signal.SIGKILL), (1, signal.SIGSTOP), (0, signal.SIGKILL)])
def test_a_rank_that_is_killed_or_stopped_is_named_in_time(victim: int, how: signal.Signals) -> None:
    deadline = 6.0
    others = [rank for rank in range(3) if rank != victim]
    with ranks(3, str(deadline)) as group:
        group.saying("pid", 3)
        time.sleep(0.1)
        group.processes[victim].send_signal(how)
        told = group.saying("error", 2, deadline + 10)
        assert group.codes(others, 20) == [1, 1], "the survivors must end, and not as if all were well"
    for rank in others:
        assert told[rank]["culprits"] == [victim], told[rank]["error"]
        assert told[rank]["seconds"] < deadline + 0.5
        assert f"rank {victim}" in told[rank]["error"]
        assert how == signal.SIGSTOP or told[rank]["seconds"] < 4, "a closed connection is known at once"


def test_a_rank_that_leaves_with_work_in_flight_neither_hangs_nor_is_waited_for() -> None:
    with ranks(2, "leave") as group:
        assert group.codes([0, 1], 60) == [3, 4], "\n".join(group.errors)
        assert group.saying("error", 1)[1]["rank"] == 1
