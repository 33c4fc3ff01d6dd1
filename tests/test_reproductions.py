from __future__ import annotations

import pytest

from weft.reproductions import rat


def test_rats_figures_come_out_on_a_few_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "RATIOS": (2, 8),
        "GBITS": (40,),
        "PAUSED": (0, 4),
        "SEEDS": range(1),
        "OTHER_PAUSES": (0.001, 0.05),
    }.items():
        monkeypatch.setattr(rat, name, value)
    oversubscribed, paused = rat.figure_4(), rat.figure_5()
    assert [row.workers for row in oversubscribed] == [16, 64]
    for row in oversubscribed:
        assert row.rat < row.parameter_server
        # The incast column is an assumption that divides a time, and must not look like anything else.
        assert row.incast == pytest.approx(row.parameter_server / rat.INCAST, rel=1e-2)
    for calm, disturbed in ((paused[0], paused[1]), (paused[2], paused[3])):
        assert calm.ring == calm.rat == calm.parameter_server == pytest.approx(1.0)
        assert disturbed.ring > max(disturbed.rat, disturbed.parameter_server) > 1.2
    found = rat.summary(oversubscribed, paused)
    assert found["ring_slowdown_1ms"] < found["ring_slowdown"] < found["ring_slowdown_50ms"]
    text = " ".join(rat.explanation(found))
    assert "assuming" in text
    assert "chosen as the nearest of three" in text
