"""``weft probe`` on an emulated network, by real connections."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.racks import racks_of, true_regions
from benchmarks.scenarios import MBIT

from weft import Network
from weft.emulation.capabilities import capabilities

WEFT = [sys.executable, "-m", "weft"]


@pytest.fixture(scope="module", autouse=True)
def _able() -> None:
    found = capabilities()
    if not found.can_emulate:
        missing = ", ".join(item.name for item in found.items if item.needed and not item.present)
        pytest.skip(f"this machine cannot emulate: it lacks {missing}")


def test_a_probe_finds_the_racks_and_writes_them_down(tmp_path: Path) -> None:
    """Two racks of two, interleaved, at rates that a busy machine reaches too."""
    network = racks_of([2, 2], [60 * MBIT, 60 * MBIT], {}, [0, 2, 1, 3], 100 * MBIT)
    network.save(tmp_path / "true.yaml")
    probe = [*WEFT, "probe", "-o", str(tmp_path / "found.yaml"), "--json", "--time", "30s"]
    done = subprocess.run(
        [*WEFT, "emulate", str(tmp_path / "true.yaml"), "--", *probe], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert {frozenset(region) for region in facts["regions"]} == true_regions(network)
    found = Network.load(tmp_path / "found.yaml")
    assert found == Network.parse(facts["network"])
    for link in found.links:
        wanted = 60 * MBIT if "core" in (link.source, link.destination) else 100 * MBIT
        # A host's own rate shows only in the few rounds within its rack: on a busy machine a third may be missing.
        assert 0.5 * wanted < link.bandwidth < 1.1 * wanted, link.name
    assert facts["fit_error"] < 0.3
