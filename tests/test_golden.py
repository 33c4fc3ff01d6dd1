"""Our times against SimGrid's. See tests/golden/README.md for how SimGrid's were made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weft
from golden.cases import CASES, NBYTES, Case

SECONDS: dict[str, float] = json.loads((Path(__file__).parent / "golden" / "simgrid.json").read_text())["seconds"]
TOLERANCE = 1e-6
BY_NAME = {case.name: case for case in CASES}


def difference(case: Case, **changes: Any) -> float:
    """How far our time is from SimGrid's, relative to SimGrid's."""
    network = case.network()
    options: dict[str, Any] = {"rtt_weights": True, "channel": "blocking", **changes}
    seconds = weft.simulate(case.schedule(network), network, NBYTES, **options).seconds
    return seconds / SECONDS[case.name] - 1


def test_every_case_has_a_golden_number() -> None:
    assert BY_NAME.keys() == SECONDS.keys()
    assert len(CASES) == len(BY_NAME) == 24


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_times_agree_with_simgrid(case: Case) -> None:
    off = difference(case)
    print(f"{case.name}: {off:+.2e}")
    assert abs(off) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "changes"),
    [("rat-8-5us-equal", {"rtt_weights": False}), ("rat-64-5us-unequal", {"channel": "shared"})],
    ids=["no weights", "shared channels"],
)
def test_another_model_is_noticed(name: str, changes: dict[str, Any]) -> None:
    assert abs(difference(BY_NAME[name], **changes)) > TOLERANCE
