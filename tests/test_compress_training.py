"""``weft train --compress``: what training files may say of it, and trainings that send less and can be interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.cli import main
from weft.errors import InputError
from weft.training import config_of

CONFIG = """
[model]
name = "mlp"
hidden = [32]
[data]
name = "synthetic"
size = 8
channels = 1
train = 600
test = 60
[training]
epochs = 2
batch = 20
seed = 5
[plan]
overlap = "none"
bucket = "2kB"
"""
SPARSE = '[compress]\nname = "spardl"\ndensity = 0.05\nwarmup = 3\n'


def run(folder: Path, *flags: str, text: str = CONFIG) -> dict[str, Any]:
    (folder / "job.toml").write_text(text)
    command = [sys.executable, "-m", "weft", "train", str(folder / "job.toml"), "--workers", "3", "--json", *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def checkpoint(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(folder / "checkpoint.pt", weights_only=True)
    return content


@pytest.mark.slow
def test_a_sparse_training_goes_on_to_the_same_bits_and_sends_less(tmp_path: Path) -> None:
    whole = run(tmp_path, "-o", str(tmp_path / "whole"), text=CONFIG + SPARSE)
    run(tmp_path, "-o", str(tmp_path / "parts"), "--steps", "7", text=CONFIG + SPARSE)
    again = run(tmp_path, "-o", str(tmp_path / "parts"), "--resume", text=CONFIG + SPARSE)
    one, other = checkpoint(tmp_path / "whole"), checkpoint(tmp_path / "parts")
    assert again["steps"] == whole["steps"] - 7
    assert all(torch.equal(one["model"][name], other["model"][name]) for name in one["model"])
    for mine, theirs in zip(one["ranks"], other["ranks"], strict=True):
        kept, known = (x["compress"]["feedback"]["parameters"] for x in (mine, theirs))
        assert any(kept[name]["residual"].any() for name in kept), "something is left over"
        assert all(torch.equal(kept[name]["residual"], known[name]["residual"]) for name in kept)
    assert whole["compress"] == "spardl (density 0.05, warm-up 3)"
    assert whole["selecting_seconds"] > 0
    assert whole["wire_seconds"] > 0
    flags = ("--compress", "bf16", "--plan", "ring")
    rounded = run(tmp_path, "-o", str(tmp_path / "half"), "--steps", "5", *flags)
    plain = run(tmp_path, "-o", str(tmp_path / "plain"), "--steps", "5", "--plan", "ring")
    assert rounded["bytes_sent"] * 2 == plain["bytes_sent"]
    assert (rounded["compress"], rounded["selecting_seconds"]) == ("bfloat16", None)
    assert plain["compress"] is None
    assert whole["bytes_sent"] / whole["steps"] < plain["bytes_sent"] / plain["steps"] / 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('name = "sardl"', 'compress.name: "sardl" is not possible'),
        ('name = "spardl"\ndensity = 0', "compress.density: 0 is not possible; it must be more than 0"),
        ('name = "spardl"\ndensity = 1.5', "compress.density: 1.5 is not possible; it must be at most 1"),
        ('name = "spardl"\nmomentum = 0.9', "set optimizer.momentum = 0"),
        ('name = "spardl"\n[strategy]\nname = "ds-sync"', "spardl with ds-sync: what is averaged are parameters"),
        (
            'name = "none"\n[strategy]\nparts = 2',
            "strategy.parts: 2 parts with bsp: of a gradient no part can be left out",
        ),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        config_of(CONFIG + "[compress]\n" + text, Path("job.toml"))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--compress", "spardle"], 'there is no method "spardle"; did you mean'),
        (["--compress", "spardl", "--density", "0"], "--density 0 is not possible"),
        (["--density", "0.1"], "--density is for sparse methods: add --compress spardl"),
        (["--compress", "spardl", "--plan", "ring"], "leave the plan ring out"),
        (["--compress", "spardl", "--strategy", "ds-sync"], "average them in parts (--parts 4)"),
        (["--parts", "0"], "--parts 0 is not possible"),
        (["--parts", "2", "--strategy", "local-sgd"], "2 parts with local-sgd: it averages seldom as it is"),
        (["--compress", "spardl", "--in-memory"], "leave --in-memory or --compress out"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    (tmp_path / "job.toml").write_text(CONFIG)
    assert main(["train", str(tmp_path / "job.toml"), *flags]) == 2
    assert says in capsys.readouterr().err
