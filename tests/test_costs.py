"""What executing costs, measured: what streams say about links."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.racks import racks_of
from benchmarks.scenarios import MBIT

from weft.runtime import costs
from weft.runtime.probe_flows import Stream

NETWORK = racks_of([2, 2], [400 * MBIT, 400 * MBIT], {1: 100 * MBIT}, [0, 2, 1, 3])


def efficiency(monkeypatch: pytest.MonkeyPatch, part: list[float]) -> float:
    """Every worker receives so large a part of what its link allows, from the one before it in rack order: a0 a1 b0 b1."""
    found = dict.fromkeys(range(4), 0.0)
    # Ranks are dealt out to the racks in turn; a1, which is rank 2, is slow, and so is what it sends.
    allowed = {0: 400, 2: 100, 1: 100, 3: 400}
    for rank in range(4):
        us: Any = SimpleNamespace(transport=SimpleNamespace(rank=rank, size=4))
        seen = Stream(part[rank] * allowed[rank] * MBIT, 0)
        monkeypatch.setattr(costs, "exchange", lambda *_, seen=seen: (seen, 0))
        own: list[float] = []
        monkeypatch.setattr(costs, "slowest", lambda parts, _, own=own: own.extend(parts) or [1.0])
        costs._efficiency(us, NETWORK, None)
        assert [place for place, value in enumerate(own) if value] == [rank]
        found[rank] = own[rank]
    monkeypatch.setattr(costs, "slowest", lambda *_: list(found.values()))
    return costs._efficiency(us, NETWORK, None)


def test_a_slow_host_says_nothing_about_the_other_links(monkeypatch: pytest.MonkeyPatch) -> None:
    assert efficiency(monkeypatch, [0.94, 0.5, 0.95, 0.96]) == pytest.approx(0.945)


@pytest.mark.parametrize(("part", "said"), [(0.2, costs.LEAST_EFFICIENCY), (1.3, 1.0)])
def test_what_cannot_be_is_not_said(monkeypatch: pytest.MonkeyPatch, part: float, said: float) -> None:
    assert efficiency(monkeypatch, [part] * 4) == said
