"""``weft train`` with several workers: their processes, signals, deaths, and the bits that they end with."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

WORKERS = 3
TIMEOUT = 120.0
MODEL = """
import os, time
from pathlib import Path
import torch

class Held(torch.nn.Sequential):
    '''A small model with dropout; from its sixth step on it waits while there is a file.'''
    steps = 0
    def forward(self, x):
        if self.training:
            self.steps += 1
        while self.training and self.steps > 5 and Path(os.environ["HOLD"]).exists():
            time.sleep(0.01)
        return super().forward(x)

def model(inputs, classes):
    layers = torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 10)
    return Held(*layers)
"""
STOPPING = """
import os, signal
import torch
import weft.torch as wt
from weft.runtime import Deadlines

class Stopping(torch.nn.Linear):
    '''Stops its process when it is tested on rank 1.'''
    def forward(self, x):
        if not self.training and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().forward(x)

def model(inputs, classes):
    wt.communicator().deadlines = Deadlines(floor=3.2, factor=1.0, asked=3.2)
    return torch.nn.Sequential(torch.nn.Flatten(), Stopping(64, 10))
"""
CONFIG = """
[model]
name = "held:model"
[data]
name = "{data}"
[training]
epochs = 2
batch = 16
seed = 5
[plan]
plan = "ring"
"""
DIGITS = CONFIG.replace("{data}", "digits")
SYNTHETIC = CONFIG.replace("{data}", 'synthetic"\nsize = 8\nchannels = 1\ntrain = 900\ntest = "9').replace('"9"', "9")


class Job:
    """A folder with a training file, and the runs of it."""

    def __init__(self, folder: Path, config: str) -> None:
        self.folder, self.hold = folder, folder / "hold"
        self.file, self.output = folder / "job.toml", folder / "out"
        self.file.write_text(config)
        (folder / "held.py").write_text(MODEL)

    def start(self, *flags: str, **variables: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "weft", "train", str(self.file), "-o", str(self.output), *flags]
        environment = os.environ | {"HOLD": str(self.hold), "OMP_NUM_THREADS": "1"} | variables
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    def lines(self) -> list[dict[str, Any]]:
        path = self.output / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def state(self) -> dict[str, Any]:
        content: dict[str, Any] = torch.load(self.output / "checkpoint.pt", weights_only=True)
        return content


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=TIMEOUT)
    return process.returncode, out, err


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + TIMEOUT
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "nothing happens"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, dict[str, Any]]:
    """A training that nothing interrupts, and what it printed."""
    job = Job(tmp_path_factory.mktemp("whole"), DIGITS)
    code, out, err = ended(job.start("--workers", str(WORKERS), "--json"))
    assert code == 0, err
    return job, json.loads(out)


def test_workers_train_together_and_print_one_document(whole: tuple[Job, dict[str, Any]]) -> None:
    job, document = whole
    assert document["workers"] == WORKERS
    assert document["step"] == document["steps"] == len(job.lines()) == 2 * (1438 // (16 * WORKERS))
    assert document["accuracy"] == job.lines()[-1]["accuracy"] > 0.5
    assert "ring" in document["plan"]
    # A ring sends every byte 2 (n - 1) times, whatever its pieces.
    assert all(line["bytes_sent"] == 2 * (WORKERS - 1) * 4 * document["parameters"] for line in job.lines())
    assert all(0 <= line["communication_seconds"] <= line["seconds"] for line in job.lines())


def test_ctrl_c_leaves_a_checkpoint_and_resuming_ends_with_the_same_bits(
    whole: tuple[Job, dict[str, Any]], tmp_path: Path
) -> None:
    job = Job(tmp_path, DIGITS)
    job.hold.touch()
    process = job.start("--workers", str(WORKERS))
    wait_until(lambda: len(job.lines()) >= 4, process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)  # the launcher passes it on before the workers go on
    job.hold.unlink()
    code, out, err = ended(process)
    assert code == 130, err
    assert "interrupted after step" in out
    assert "--resume" in out
    assert not any(word in err for word in ("Traceback", "error"))
    stopped = job.state()["position"]["step"]
    assert 5 <= stopped < whole[1]["steps"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    resumed = [
        job.start("--resume", RANK=str(rank), WORLD_SIZE=str(WORKERS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        for rank in range(WORKERS)
    ]
    for process in resumed:
        code, _, err = ended(process)
        assert (code, err) == (0, "")
    wanted, found = whole[0].state(), job.state()
    assert wanted["position"] == found["position"]
    for name, tensor in wanted["model"].items():
        assert torch.equal(tensor, found["model"][name]), name
    for one, other in zip(wanted["ranks"], found["ranks"], strict=True):
        assert torch.equal(one["random"]["torch"], other["random"]["torch"])
    assert [line["loss"] for line in whole[0].lines()] == [line["loss"] for line in job.lines()]


def test_a_killed_worker_ends_the_others_with_its_exit_code(tmp_path: Path) -> None:
    job = Job(tmp_path, SYNTHETIC)
    job.hold.touch()
    process = job.start("--workers", "2")
    wait_until(lambda: len(job.lines()) >= 4, process)
    workers = children(process.pid)
    assert len(workers) == 2
    os.kill(workers[1], signal.SIGKILL)
    job.hold.unlink()
    code, _, err = ended(process)
    assert code == 128 + signal.SIGKILL
    assert "rank 1 ended with signal 9 (SIGKILL)" in err
    assert not any(map(is_running, workers))


def test_a_worker_that_is_stopped_in_an_evaluation_is_named(tmp_path: Path) -> None:
    job = Job(tmp_path, SYNTHETIC.replace("epochs = 2", "epochs = 1\nsteps = 3"))
    (tmp_path / "held.py").write_text(STOPPING)
    process = job.start("--workers", "2")
    wait_until(lambda: len(children(process.pid)) == 2, process)
    one, other = children(process.pid)
    wait_until(lambda: not is_running(one), process)
    time.sleep(1.0)  # whoever started them has seen who ended first
    os.kill(other, signal.SIGKILL)
    code, _, err = ended(process)
    assert code == 1
    assert "rank 1 does not answer: it is dead, stopped or cut off" in err
    assert "Traceback" not in err


def test_workers_do_not_outlive_whoever_started_them(tmp_path: Path) -> None:
    job = Job(tmp_path, SYNTHETIC)
    job.hold.touch()
    process = job.start("--workers", "2")
    wait_until(lambda: len(children(process.pid)) == 2, process)
    workers = children(process.pid)
    process.kill()
    process.communicate()
    until = time.monotonic() + 30
    while any(map(is_running, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_running, workers))


def test_what_all_workers_find_wrong_is_told_once(tmp_path: Path) -> None:
    job = Job(tmp_path, CONFIG.replace("{data}", 'fashion-mnist"\nfolder = "nowhere'))
    code, out, err = ended(job.start("--workers", "2", "--json"))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "data.folder: there is no folder" in err
    assert "dataset-fashion-mnist" in err
