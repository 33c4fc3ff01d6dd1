"""``weft train --strategy`` with several workers: the losses of the training in memory, resumption, and the death of a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from ranks import slow
from weft.network import two_tier

TIMEOUT = 150.0
WORKERS = 4
CONFIG = """
[model]
name = "mlp"
[data]
name = "digits"
[training]
epochs = 2
batch = 16
seed = 5
[plan]
network = "network.yaml"
[strategy]
every = 3
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    two_tier(2, 2, 50e6, uplink=50e6).save(tmp_path / "network.yaml")
    path = tmp_path / "job.toml"
    path.write_text(CONFIG)
    return path


def started(job: Path, output: str, strategy: str, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "weft", "train", str(job), "-o", str(job.parent / output), "--strategy", strategy]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, *flags], env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=pipe, stderr=pipe, text=True
    )


def trained(job: Path, output: str, strategy: str, *flags: str) -> dict[str, Any]:
    process = started(job, output, strategy, "--json", *flags)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("strategy", ["ds-sync", slow("gossip"), slow("local-sgd")])
def test_real_workers_have_the_losses_of_the_training_in_memory(job: Path, strategy: str) -> None:
    real = trained(job, "real", strategy, "--workers", str(WORKERS), "--steps", "14")
    memory = trained(job, "memory", strategy, "--in-memory", "--steps", "14")
    assert losses(job.parent / "real") == pytest.approx(losses(job.parent / "memory"), rel=1e-4)
    assert real["accuracy"] == pytest.approx(memory["accuracy"], abs=0.006)
    assert strategy in real["plan"]
    assert real["bytes_sent"] == memory["bytes_sent"]


@pytest.mark.parametrize("strategy", [slow("ds-sync"), slow("local-sgd")])
def test_resuming_goes_on_to_the_same_bits_on_every_rank(job: Path, strategy: str) -> None:
    trained(job, "whole", strategy, "--workers", str(WORKERS), "--steps", "12")
    trained(job, "parts", strategy, "--workers", str(WORKERS), "--steps", "7")
    trained(job, "parts", strategy, "--workers", str(WORKERS), "--steps", "12", "--resume")
    assert losses(job.parent / "parts") == losses(job.parent / "whole")
    files = sorted(path.name for path in (job.parent / "parts").glob("checkpoint-*"))
    assert files == [f"checkpoint-12-rank-{rank}.pt" for rank in range(WORKERS)], "older states are removed"
    for name in files:
        states = [torch.load(job.parent / run / name, weights_only=True)["model"] for run in ("whole", "parts")]
        for key, value in states[0]["module"].items():
            assert torch.equal(value, states[1]["module"][key]), f"{name}: {key}"


@pytest.mark.slow
def test_another_number_of_workers_cannot_go_on(job: Path) -> None:
    trained(job, "out", "gossip", "--workers", "2", "--steps", "3", "--network", str(_mesh(job)))
    process = started(job, "out", "gossip", "--workers", "3", "--resume", "--network", str(_mesh(job, 3)))
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 2
    assert "start as many" in err


def _mesh(job: Path, workers: int = 2) -> Path:
    from weft.network import full_mesh

    path = job.parent / f"mesh-{workers}.yaml"
    full_mesh(workers).save(path)
    return path


@pytest.mark.parametrize("strategy", ["asp", slow("ssp")])
def test_servers_train_a_model(job: Path, strategy: str) -> None:
    document = trained(job, "out", strategy, "--workers", "3", "--network", str(_mesh(job, 3)))
    assert document["accuracy"] > 0.5


@pytest.mark.slow
def test_servers_go_on_from_a_checkpoint(job: Path) -> None:
    """Without staleness, and without momentum, in which the order of workers would show: as if there had been no pause."""
    job.write_text(CONFIG + "staleness = 0\n[optimizer]\nmomentum = 0.0\n[output]\ncheckpoint_steps = 5\n")
    flags = ["--workers", "2", "--network", str(_mesh(job))]
    trained(job, "whole", "ssp", *flags, "--steps", "12")
    trained(job, "parts", "ssp", *flags, "--steps", "7")
    document = trained(job, "parts", "ssp", *flags, "--steps", "12", "--resume")
    assert document["step"] == 12
    assert losses(job.parent / "parts") == pytest.approx(losses(job.parent / "whole"), rel=1e-3)
    files = sorted(path.name for path in (job.parent / "parts").glob("checkpoint-*"))
    assert files == [f"checkpoint-12-rank-{rank}.pt" for rank in range(2)]


@pytest.mark.parametrize("strategy", ["ssp", slow("asp")])
def test_interrupted_servers_leave_a_checkpoint_that_resumes(job: Path, strategy: str) -> None:
    job.write_text(CONFIG.replace("epochs = 2", "epochs = 400") + "staleness = 1\n")
    flags = ["--workers", "3", "--network", str(_mesh(job, 3))]
    process = started(job, "out", strategy, *flags)
    metrics = job.parent / "out" / "metrics.jsonl"
    until = time.monotonic() + TIMEOUT
    while not metrics.exists() or len(metrics.read_text().splitlines()) < 5:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, err
    reached = len(metrics.read_text().splitlines())
    document = trained(job, "out", strategy, *flags, "--resume", "--steps", str(reached + 4))
    assert document["step"] == reached + 4


def test_a_killed_worker_is_named_and_the_checkpoint_resumes(job: Path) -> None:
    job.write_text(CONFIG.replace("epochs = 2", "epochs = 400") + "[output]\ncheckpoint_steps = 5\n")
    process = started(job, "out", "ds-sync", "--workers", str(WORKERS))
    until = time.monotonic() + TIMEOUT
    while not (job.parent / "out" / "checkpoint.pt").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode != 0
    assert f"rank {WORKERS - 1}" in err
    document = trained(job, "out", "ds-sync", "--workers", str(WORKERS), "--resume", "--steps", "400")
    assert document["step"] == 400
