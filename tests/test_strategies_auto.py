"""``weft plan --strategy``: what is predicted to be fastest, what stays exact, and what is refused."""

from __future__ import annotations

import json

import pytest

from weft.cli import main
from weft.errors import InputError
from weft.network import two_tier
from weft.strategies.comparison import compared, even_workload
from weft.strategies.composing import TRIED, refusal

SIZE = 25e6


@pytest.fixture(scope="module")
def thin() -> object:
    """Two racks of four, one thin uplink: groups that rarely cross it are far ahead."""
    return compared(two_tier(2, 4, 50e6, uplink=50e6), SIZE, compute_seconds=0.1, seconds=2.0)


def test_every_way_computes_at_least_and_hides_at_most_everything(thin) -> None:  # type: ignore[no-untyped-def]
    assert [way.seconds for way in thin.ways] == sorted(way.seconds for way in thin.ways)
    for way in thin.ways:
        assert way.seconds >= max(0.1, way.communication_seconds) * 0.999, way
        assert way.seconds <= (0.1 + way.communication_seconds) * 1.001, way


def test_only_gradients_of_all_workers_without_loss_are_exact(thin) -> None:  # type: ignore[no-untyped-def]
    for way in thin.ways:
        assert way.exact == (way.strategy == "bsp" and way.compress == "none")
        assert (way.trades == "nothing") == way.exact
    assert {way.strategy for way in thin.ways} == {"bsp", "ds-sync", "gossip", "local-sgd", "asp", "ssp"}


def test_ds_sync_is_faster_than_the_backend_and_less_exact_ways_need_a_reason(thin) -> None:  # type: ignore[no-untyped-def]
    best = {
        name: min(way.seconds for way in thin.ways if name in way.name) for name in ("ds-sync", "ring (the backend")
    }
    assert best["ds-sync"] < best["ring (the backend"]
    assert not thin.chosen.exact
    assert thin.chosen.seconds * 1.03 < thin.fastest_exact.seconds


def test_an_exact_way_that_is_as_fast_is_chosen() -> None:
    """Where computing takes far longer than sending, everything can be hidden: then nothing needs to be traded."""
    found = compared(two_tier(2, 2, 1e9, uplink=1e9), 1e6, compute_seconds=1.0, seconds=1.0)
    assert found.chosen.exact
    assert found.chosen.seconds < 1.03


def test_what_does_not_compose_is_refused_with_a_reason(thin) -> None:  # type: ignore[no-untyped-def]
    assert all(refusal(*tried) for tried in TRIED)
    assert all(reason in thin.refused for tried in TRIED if (reason := refusal(*tried)))
    for fine in (("bsp", "auto", "auto", "spardl"), ("ds-sync", "rat", "auto", "none"), ("local-sgd", "p.json")):
        assert refusal(*fine) is None
    assert refusal("ds-sync", parts=4) is None
    assert "servers apply whole gradients" in (refusal("ssp", parts=4) or "")
    assert any(way.strategy == "ds-sync" and way.compress == "4 parts" for way in thin.ways)
    assert "parameters" in (refusal("gossip", compress="topk-a") or "")


def test_layers_add_up() -> None:
    work = even_workload(SIZE, 0.3)
    assert work.compute_seconds == pytest.approx(0.3)
    assert work.nbytes == pytest.approx(SIZE, rel=1e-3)
    with pytest.raises(InputError, match="more than 0"):
        compared(two_tier(2, 2), SIZE, compute_seconds=0.0)


def test_the_command_prints_one_document_and_refuses_wrong_names(capsys: pytest.CaptureFixture[str]) -> None:
    network = "two_tier:racks=2,workers_per_rack=2"
    assert main(["plan", network, "--size", "1MB", "--strategy", "ds_sync", "--time", "1s", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {way["strategy"] for way in document["results"]} == {"ds-sync"}
    assert document["fastest_exact"]["exact"]
    assert main(["plan", network, "--size", "1MB", "--strategy", "auto", "--time", "1s"]) == 0
    assert "chosen" in capsys.readouterr().out
    assert main(["plan", network, "--size", "1MB", "--strategy", "ds-sink"]) == 2
    assert "ds-sync" in capsys.readouterr().err
    assert main(["plan", network, "--size", "1MB", "--strategy", "auto", "-o", "plan.json"]) == 2
