"""Strategies on gloo, every rank a process: the parameters of the training in memory, lost ranks, bounds, resumption."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ranks import slow

SCRIPT = Path(__file__).parent / "strategy_rank.py"
ROOT = Path(__file__).parent.parent


def ranks(size: int, *names: str, killed: bool = False, seconds: float = 240, **variables: str) -> None:
    """Run these on so many ranks; all must end well, except that the last one may be killed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = os.environ | {
        "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT), **variables,
    }  # fmt: skip
    command = [sys.executable, "-W", "error", str(SCRIPT), ",".join(names)]
    processes = [
        subprocess.Popen(
            command, env=common | {"RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for rank in range(size)
    ]
    try:
        told = [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    codes = [process.returncode for process in processes]
    expected = [0] * (size - killed) + [-signal.SIGKILL] * killed
    assert codes == expected, f"{codes}\n" + "\n".join(told)


def test_every_strategy_computes_what_it_does_in_memory() -> None:
    ranks(4, "every_strategy_equals_memory", "buffers_and_momentum_stay_own")


def test_a_rack_of_one_trains_like_in_memory() -> None:
    ranks(3, "every_strategy_equals_memory")


def test_resuming_goes_on_to_the_same_bits() -> None:
    ranks(3, "resuming_gives_the_same_bits")


def test_mistakes_are_named_and_gradients_accumulate() -> None:
    ranks(2, "mistakes_are_named", "accumulated_passes_are_one_step")


def test_a_slow_worker_divides_the_pattern_and_it_returns() -> None:
    ranks(4, "contention_is_followed_and_forgotten")


@pytest.mark.parametrize("strategy", [slow("bsp"), "ds-sync", slow("gossip"), slow("local-sgd"), "ssp"])
def test_a_lost_rank_is_named_by_all(strategy: str) -> None:
    ranks(4, "a_lost_rank_is_named_by_all", killed=True, STRATEGY=strategy)


def test_servers_apply_every_gradient_and_hold_the_bound() -> None:
    ranks(3, "servers_apply_everything", "staleness_is_bounded")


@pytest.mark.parametrize("strategy", ["asp", slow("ssp")])
def test_serving_goes_on_without_a_worker_that_is_no_server(strategy: str) -> None:
    ranks(3, "serving_goes_on_without_a_worker", killed=True, STRATEGY=strategy)
