"""The tables of the DS-Sync paper, made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.cli import main
from weft.reproductions import ds_sync, ds_sync_training
from weft.reproductions.ds_sync import METHODS, SCENARIOS, Row, paper_speedups
from weft.reproductions.ds_sync_training import Curve, convergence, curve, target_of


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], Row]:
    before = ds_sync.PLANNING_SECONDS
    ds_sync.PLANNING_SECONDS = 0.3
    found: dict[tuple[str, str], Row] = {(row.scenario, row.reading): row for row in ds_sync.rows()}
    ds_sync.PLANNING_SECONDS = before
    return found


def test_ds_sync_is_ahead_of_every_method_of_the_paper_in_every_scenario(rows: dict[tuple[str, str], Row]) -> None:
    assert len(rows) == 5
    for row in rows.values():
        assert all(row.seconds("ds-sync") < row.seconds(method) for method in METHODS[:-1])


@pytest.mark.parametrize(
    ("scenario", "least"), [("inter-rack and end-host", 1.6), ("inter-rack", 1.58), ("static", 1.25)]
)
def test_it_is_as_far_ahead_of_all_reduce_as_the_paper_says(
    rows: dict[tuple[str, str], Row], scenario: str, least: float
) -> None:
    row = rows[scenario, "half"]
    assert row.speedup("ds-sync") >= least
    assert row.speedup("ds-sync") <= 1.05 * max(paper_speedups(SCENARIOS[scenario], "ds-sync"))


def test_the_papers_own_methods_come_out_near_its_ratios(rows: dict[tuple[str, str], Row]) -> None:
    for scenario in SCENARIOS:
        row = rows[scenario, "half"]
        for method in ("hier", "gossip", "ds-sync"):
            assert row.speedup(method) == pytest.approx(paper_speedups(SCENARIOS[scenario], method)[0], rel=0.3)


def test_dividing_pays_where_a_worker_is_slow_and_changes_nothing_between_two_racks(
    rows: dict[tuple[str, str], Row],
) -> None:
    assert (
        rows["inter-rack and end-host", "half"].seconds("ds-sync")
        < 0.6 * rows["inter-rack and end-host", "half"].undivided
    )
    for scenario in ("inter-rack", "static"):
        assert rows[scenario, "half"].seconds("ds-sync") == pytest.approx(rows[scenario, "half"].undivided)


def test_an_exact_plan_is_said_where_it_comes_near(rows: dict[tuple[str, str], Row]) -> None:
    for (_, reading), row in rows.items():
        if reading == "half":
            assert row.bound <= row.planned * (1 + 1e-9)
    assert rows["inter-rack", "half"].bound == pytest.approx(rows["inter-rack", "half"].seconds("ds-sync"), rel=1e-3)


def test_half_of_a_link_is_taken_both_in_conditions_and_in_the_network_for_plans() -> None:
    scenario = SCENARIOS["inter-rack and end-host"]
    halved = {
        link.name for link, whole in zip(scenario.halved.links, scenario.network.links, strict=True) if link != whole
    }
    assert halved == {
        "a4>tor-a",
        "tor-a>a4",
        "tor-a>core",
        "core>tor-a",
        "tor-b>core",
        "core>tor-b",
        "tor-b>b3",
        "b3>tor-b",
    }
    assert SCENARIOS["static"].conditions("half") is None
    assert SCENARIOS["static"].halved == SCENARIOS["static"].network


def test_the_time_of_a_curve_is_that_of_the_papers_model_on_the_scenarios_network(fashion: Path) -> None:
    found = curve(fashion, "ds-sync", "static", 0, 2)
    assert found.steps == (4,)
    assert len(found.plain) == len(found.ensemble) == 1
    assert found.elapsed[0] == pytest.approx(4 * (ds_sync_training.COMPUTE + 0.0779), rel=0.01)


def made(strategy: str, seed: int, plain: tuple[float, ...], ensemble: tuple[float, ...]) -> Curve:
    return Curve(strategy, "static", seed, (10, 20, 30), plain, ensemble, (1.0, 2.0, 3.0))


def test_the_target_is_the_lowest_of_bsps_best_and_steps_count_to_it(rows: dict[tuple[str, str], Row]) -> None:
    found = [
        made("bsp", 0, (0.1, 0.5, 0.8), (0.1, 0.2, 0.3)),
        made("bsp", 1, (0.1, 0.7, 0.9), (0.1, 0.2, 0.3)),
        made("ds-sync", 0, (0.1, 0.1, 0.1), (0.2, 0.85, 0.7)),
        made("ds-sync", 1, (0.1, 0.1, 0.1), (0.2, 0.3, 0.8)),
    ]
    assert target_of(found) == 0.8
    row = rows["static", "half"]
    ours = convergence(found, "ds-sync", "static", True, row)
    assert (ours.steps, ours.best) == ((20, 30), (0.85, 0.8))
    assert ours.mean_seconds == pytest.approx(25 * (ds_sync_training.COMPUTE + row.seconds("ds-sync")))
    assert convergence(found, "ds-sync", "inter-rack", False, row).mean_steps is None, "it never came so far"


def test_the_command_prints_tables_and_trains_if_it_is_told_to(
    fashion: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ds_sync, "PLANNING_SECONDS", 0.3)
    page = tmp_path / "page.html"
    words = ["reproduce", "ds-sync", "--train", "--seeds", "1", "--data", str(fashion), "-o", str(page), "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["scenario"] for row in document["ours"]} == set(SCENARIOS)
    assert {one["strategy"] for one in document["convergence"]} == {"bsp", "ds-sync", "gossip", "asp"}
    assert "Accuracy by simulated time" in page.read_text()
    assert main(["reproduce", "ds-sync"]) == 0
    said = capsys.readouterr().out
    assert "Table III" in said
    assert "a1 a4* | a2 a3" in said
    assert "convergence" not in said, "nothing was trained"


def test_training_without_data_or_for_another_paper_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ds_sync, "rows", lambda progress: [])
    monkeypatch.setattr("weft.reproductions.fashion.folder_of_data", lambda: None)
    assert main(["reproduce", "ds-sync", "--train"]) == 2
    assert "--train needs Fashion-MNIST" in capsys.readouterr().err
    assert main(["reproduce", "ds-sync", "--train", "--seeds", "0"]) == 2
    assert main(["reproduce", "rat", "--train"]) == 2
