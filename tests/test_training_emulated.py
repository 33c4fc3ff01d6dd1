"""``weft train`` on an emulated network, of whose workers one is killed in the middle: resumed, it ends with the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.racks import racks_of
from benchmarks.scenarios import MBIT

from weft.emulation.capabilities import capabilities

WORKERS, KILLED_AT, EVERY = 3, 11, 4
MODEL = f"""
import os, signal
import torch

class Doomed(torch.nn.Sequential):
    '''A small model with dropout; rank 1 kills itself in a step, if told to.'''
    steps = 0
    def forward(self, x):
        if self.training:
            self.steps += 1
        if self.steps == {KILLED_AT} and os.environ["RANK"] == os.environ.get("DOOMED"):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(x)

def model(inputs, classes):
    layers = torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 10)
    return Doomed(*layers)
"""
CONFIG = f"""
[model]
name = "doomed:model"
[data]
name = "digits"
[training]
epochs = 1
batch = 16
seed = 5
[plan]
plan = "ring"
[output]
checkpoint_steps = {EVERY}
"""


def trained(folder: Path, output: str, *flags: str, **variables: str) -> tuple[int, str]:
    """A training by emulated workers; its exit code, and what it wrote to standard error."""
    train = [sys.executable, "-m", "weft", "train", str(folder / "job.toml"), "-o", str(folder / output), *flags]
    words = [sys.executable, "-m", "weft", "emulate", str(folder / "network.yaml"), "--grace", "30s", "--", *train]
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stderr


def state(folder: Path, output: str) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(folder / output / "checkpoint.pt", weights_only=True)
    return content


@pytest.mark.slow  # as over loopback, in the tests of workers
def test_a_training_goes_on_after_a_worker_was_killed_and_ends_with_the_same_bits(tmp_path: Path) -> None:
    found = capabilities()
    if not found.can_emulate:
        missing = ", ".join(item.name for item in found.items if item.needed and not item.present)
        pytest.skip(f"this machine cannot emulate: it lacks {missing}")
    racks_of([2, 1], [80 * MBIT, 80 * MBIT], {}, [0, 1, 2], 80 * MBIT).save(tmp_path / "network.yaml")
    (tmp_path / "job.toml").write_text(CONFIG)
    (tmp_path / "doomed.py").write_text(MODEL)
    assert trained(tmp_path, "whole") == (0, "")
    code, said = trained(tmp_path, "killed", DOOMED="1")
    assert code == 128 + signal.SIGKILL, said
    assert "rank 1 does not answer" in said
    assert state(tmp_path, "killed")["position"]["step"] == KILLED_AT // EVERY * EVERY
    assert trained(tmp_path, "killed", "--resume") == (0, "")
    wanted, resumed = state(tmp_path, "whole"), state(tmp_path, "killed")
    assert wanted["position"] == resumed["position"]
    for name, tensor in wanted["model"].items():
        assert torch.equal(tensor, resumed["model"][name]), name
