"""SparDL's tables and figures, made again: with smaller models than the paper's, so that it takes seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.cli import main
from weft.reproductions import spardl
from weft.reproductions.spardl_findings import spardl_findings, spardl_run
from weft.reproductions.spardl_training import PLAIN, Training, accuracies, training_of
from weft.sparse import Compression
from weft.training.one_model import dense_mean, sparse_mean, trained


@pytest.fixture(autouse=True)
def _small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    for model, elements in spardl.MODELS.items():
        monkeypatch.setitem(spardl.MODELS, model, min(elements, 200_000))
    monkeypatch.setattr(spardl, "STRETCH", 2_000)
    monkeypatch.setattr(spardl, "RATE", 1e6)  # so that bytes count, as for large models
    monkeypatch.setattr(spardl, "TABLE_1_WORKERS", range(2, 9))


def test_every_count_agrees_with_table_1() -> None:
    counts = spardl.counts()
    assert {count.workers for count in counts} == set(range(2, 9))
    assert [count for count in counts if not count.agrees] == []
    assert {count.method for count in counts} >= {"spardl, R-SAG", "spardl, B-SAG", "ok-topk", "gtopk", "dense"}


def test_a_count_that_is_off_is_seen() -> None:
    count = spardl.Count(4, "spardl", 1, 4, 60, 60, 4, 60, 60)
    assert count.agrees
    assert not spardl.Count(4, "spardl", 1, 5, 60, 60, 4, 60, 60).agrees
    assert not spardl.Count(4, "spardl", 1, 4, 60, 61, 4, 60, 60).agrees


def test_spardl_is_ahead_and_more_so_where_workers_are_no_power_of_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "spardl.html"
    main(["reproduce", "spardl", "--json", "-o", str(page)])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert page.read_text().count("<svg") == 3
    for model in spardl.MODELS:
        seconds = {row["method"]: row["seconds"] for row in document["table_3"] if row["model"] == model}
        assert seconds["SparDL"] == min(seconds.values())
        assert seconds["dense"] > 10 * seconds["SparDL"]
    lead = {}
    for workers in (4, 5, 6, 7):
        seconds = {row["method"]: row["seconds"] for row in document["figure_6"] if row["workers"] == workers}
        own = seconds.pop("SparDL")
        lead[workers] = min(taken for name, taken in seconds.items() if "Bruck" not in name) / own
        assert min(seconds.values()) > 1.2 * own
    assert lead[4] < min(lead[5], lead[6], lead[7])


def test_what_is_told_has_the_papers_words_and_our_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spardl, "TABLE_1_WORKERS", range(2, 5))
    from weft.cli.output import progress

    found = spardl_findings(spardl_run(progress))
    assert len(found.tables) == 5
    assert any("1.2 to 3.7" in row for row in found.numbers.rows)
    assert all(len(row) == len(table.head) for table in (*found.tables, found.numbers) for row in table.rows)
    assert "Figure 8" in found.reasons[-1]
    assert "--train" in found.reasons[-1]


@pytest.mark.slow
def test_figure_8_is_trained_if_somebody_wants_it(
    fashion: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spardl, "TABLE_1_WORKERS", range(2, 4))
    page = tmp_path / "page.html"
    words = ["reproduce", "spardl", "--train", "--seeds", "2", "--data", str(fashion), "-o", str(page)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "Figure 8: residuals, the best first" in said
    assert "Figure 8: accuracy in percent after every epoch" in said
    assert page.read_text().count("<svg") == 4


def test_accuracies_are_means_over_seeds() -> None:
    runs = [Training("a", 0, (50.0, 80.0), (1.0, 0.5)), Training("b", 0, (1.0, 2.0), (1.0, 1.0))]
    runs.append(Training("a", 1, (60.0, 90.0), (1.0, 0.5)))
    one, other = accuracies(runs)
    assert (one.method, one.by_epoch, one.seeds) == ("a", (55.0, 85.0), 2)
    assert one.deviation == pytest.approx(50**0.5)
    assert (other.by_epoch, other.deviation) == ((1.0, 2.0), 0.0)


def test_dense_training_is_that_of_all_batches_together(fashion: Path) -> None:
    """Eight workers' mean gradients, whoever computes them; with everything kept, a sparse method gives the same."""
    config = training_of(fashion, PLAIN, 0, 2)
    whole = list(trained(config, 8, lambda _: dense_mean))
    kept = list(trained(config, 8, lambda _: sparse_mean(Compression("spardl", 1.0), 8)))
    assert whole[-1][1] < whole[0][1], "it learns"
    assert [loss for _, loss in kept] == pytest.approx([loss for _, loss in whole], rel=1e-3)
