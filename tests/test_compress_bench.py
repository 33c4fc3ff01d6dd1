"""weft bench --compress, for real, on this machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from weft.cli import main

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
COMMAND = ["-m", "weft", "bench", "--size", "400kB", "--repeat", "2", "--compress", "spardl,fp16,gtopk"]


def test_selecting_and_messages_are_told_apart_and_compared_with_the_backend() -> None:
    done = subprocess.run([*TORCHRUN, *COMMAND, "--json"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["workers"], document["density"]) == (2, 0.01)
    spardl, fp16, gtopk = document["results"]
    assert [r["compress"] for r in document["results"]] == ["spardl", "fp16", "gtopk"]
    for result in document["results"]:
        assert len(result["times"]) == 2
        assert result["speedup"] == pytest.approx(result["backend_seconds"] / result["seconds"])
    for sparse in (spardl, gtopk):
        assert 0 < sparse["selecting_seconds"] < sparse["seconds"] * 1.5
        assert sparse["wire_seconds"] > 0
        assert 2_000 < sparse["bytes_sent"] < 40_000
    assert fp16["selecting_seconds"] is None
    assert fp16["bytes_sent"] == 200_000, "all of it, in half the bytes"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--compress", "sprdl"], 'there is no method "sprdl"; did you mean'),
        (["--compress", "spardl", "--density", "1.1"], "a density of 1.1 is not possible"),
        (["--compress", "spardl", "--collective", "ring"], "--compress measures no plans"),
    ],
)
def test_wrong_arguments_are_named_before_anybody_joins(
    capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    assert main(["bench", *flags]) == 2
    assert says in capsys.readouterr().err
