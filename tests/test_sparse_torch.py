"""Sparse synchronization for real: on a loopback with faults, and on gloo with every rank a process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ranks import communicators, on_every_rank
from sparse_cases import normal
from weft.errors import AgreementError, PeerError
from weft.runtime import Faults
from weft.runtime.conversing import launch_part
from weft.sparse import METHODS, Compression, ErrorFeedback, NotFiniteError, converse

SCRIPT = Path(__file__).parent / "sparse_rank.py"
LENGTH, DEADLINE = 3000, 1.6


def gradients(size: int, seed: int = 0) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [normal(draw, LENGTH) for _ in range(size)]


@pytest.mark.parametrize("method", METHODS)
def test_results_are_those_of_memory_where_sizes_travel_apart(method: str) -> None:
    compression, given = Compression(method, 0.05, teams=2 if method == "spardl" else 1), gradients(4)
    expected = converse([ErrorFeedback(compression, r, 4).part(given[r]) for r in range(4)])
    found: list[Any] = [None] * 4
    with communicators(4) as everybody:

        def work(rank: int) -> None:
            part = ErrorFeedback(compression, rank, 4).part(given[rank])
            running = launch_part(everybody[rank], part, "a test", here=rank % 2 == 0)
            found[rank] = running.result()
            sent = [delivery for delivery in expected.deliveries if delivery.source == rank]
            assert running.execution.bytes_sent == sum(delivery.nbytes + 8 for delivery in sent)

        assert on_every_rank(4, work) == [None] * 4
    for pairs in found:
        assert np.array_equal(pairs.index, expected.results[0].index)
        assert np.array_equal(pairs.value, expected.results[0].value)


def failures(faults: dict[int, Faults]) -> list[PeerError]:
    """What every rank raises; none may take longer than the deadline."""
    given, took = gradients(4), [0.0] * 4
    feedbacks = [ErrorFeedback(Compression(density=0.05), rank, 4) for rank in range(4)]
    with communicators(4, faults) as everybody:

        def work(rank: int) -> None:
            begun = time.monotonic()
            try:
                part = feedbacks[rank].part(given[rank])
                launch_part(everybody[rank], part, "a test", timeout=DEADLINE, here=True).result()
            finally:
                took[rank] = time.monotonic() - begun

        errors = on_every_rank(4, work)
    assert max(took) < DEADLINE + 1.0, "the deadline has passed"
    assert all(not feedback.residual().any() for feedback in feedbacks), (
        "a call that failed leaves residuals as they were"
    )
    found = [error for error in errors if isinstance(error, PeerError)]
    assert len(found) == 4, errors
    return found


@pytest.mark.parametrize("faults", [Faults(hang_after=4), Faults(die_after=4)], ids=["hangs", "dies"])
def test_a_rank_that_hangs_or_dies_is_named_by_all_others(faults: Faults) -> None:
    for rank, error in enumerate(failures({2: faults})):
        if rank != 2:
            assert error.culprits == (2,)
            assert any(peer == 2 for _, peer in error.waits), "nobody says that it waits for rank 2"


def test_the_error_says_who_waits_for_whom_and_in_which_round() -> None:
    error = failures({2: Faults(hang_after=0)})[0]
    assert "rank 0 waits for rank 2: its message of round 1, message 1 of that channel, for 0." in str(error)


def test_ranks_that_mean_different_things_learn_of_it_before_anything_is_sent() -> None:
    with communicators(2) as everybody:

        def work(rank: int) -> None:
            part = ErrorFeedback(Compression(), rank, 2).part(gradients(2)[rank])
            launch_part(everybody[rank], part, f"a test of {rank}", timeout=DEADLINE).result()

        errors = on_every_rank(2, work)
    assert all(isinstance(error, AgreementError) for error in errors)


def test_numbers_that_are_none_are_an_error_on_all_ranks_after_which_all_goes_on() -> None:
    good, bad = gradients(3), gradients(3)
    bad[1][77] = np.inf
    feedbacks = [ErrorFeedback(Compression(density=0.05), rank, 3) for rank in range(3)]
    with communicators(3) as everybody:

        def work(rank: int) -> None:
            for given, wrong in ((good, False), (bad, True), (good, False)):
                running = launch_part(everybody[rank], feedbacks[rank].part(given[rank]), "a test")
                if wrong:
                    with pytest.raises(NotFiniteError, match="rank 1 is infinite or NaN at element 77"):
                        running.result()
                else:
                    running.result()

        assert on_every_rank(3, work) == [None] * 3


def started(size: int, mode: str) -> list[subprocess.Popen[str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            [sys.executable, "-W", "error", str(SCRIPT), mode],
            env=os.environ | common | {"RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def ended(processes: list[subprocess.Popen[str]], seconds: float) -> list[tuple[str, str]]:
    """What each has said, and complained about; none is left behind."""
    try:
        return [process.communicate(timeout=seconds) for process in processes]
    finally:
        _end(processes)


@pytest.mark.parametrize(
    ("size", "mode"), [pytest.param(4, "results", marks=pytest.mark.slow), (3, "results only"), (2, "results only")]
)
def test_on_gloo_results_are_those_of_memory_and_models_learn(size: int, mode: str) -> None:
    processes = started(size, mode)
    told = ended(processes, 150)
    assert [process.returncode for process in processes] == [0] * size, "\n".join(error for _, error in told)
    assert all('"good": true' in said for said, _ in told)


def test_a_rank_that_is_killed_is_named_at_once() -> None:
    deadline, victim = 10.0, 2
    processes = started(3, str(deadline))
    try:
        for process in processes:
            assert process.stdout is not None
            assert "pid" in process.stdout.readline()
        processes[victim].send_signal(signal.SIGKILL)
        others = processes[:victim]
        told = [process.communicate(timeout=deadline + 20)[0] for process in others]
    finally:
        _end(processes)
    for said in told:
        error = next(line for line in map(json.loads, said.splitlines()) if "error" in line)
        assert error["culprits"] == [victim], error["error"]
        assert error["seconds"] < 0.6 * deadline
    assert [process.returncode for process in others] == [1, 1]


def _end(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
        process.communicate()


NOTHING_NEW = """
import sys
import numpy as np
from numba.core.dispatcher import Dispatcher
from weft.sparse import Compression, ErrorFeedback, converse
from weft.sparse.compilation import compile_method

def signatures():
    modules = [module for name, module in sys.modules.items() if name.startswith("weft.")]
    kernels = {id(k): k for module in modules for k in vars(module).values() if isinstance(k, Dispatcher)}
    return {kernel.__name__: len(kernel.signatures) for kernel in kernels.values()}

settings = Compression(sys.argv[1], 0.02)
compile_method(settings)
compiled = signatures()
workers = [ErrorFeedback(settings, rank, 8) for rank in range(8)]
for call in range(4):
    draw = np.random.default_rng(call)
    converse([worker.part(draw.normal(size=200_000).astype(np.float32)) for worker in workers])
assert any(compiled.values())
assert signatures() == compiled, {name for name, count in signatures().items() if count != compiled[name]}
"""


@pytest.mark.parametrize("method", ["spardl", "ok-topk"])
def test_nothing_is_left_to_compile_when_ranks_meet(method: str) -> None:
    done = subprocess.run([sys.executable, "-c", NOTHING_NEW, method], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
