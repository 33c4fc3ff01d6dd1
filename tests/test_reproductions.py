from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest

from weft.bounds import bound
from weft.cli import main
from weft.collectives import parameter_server
from weft.collectives.forest import forest_of
from weft.network import Link, Network
from weft.packing.master import Formulation
from weft.packing.pack import pack
from weft.planning.candidates import busiest_link
from weft.proof import verify
from weft.reproductions import packing, packing_figure_6, packing_readings, rat
from weft.reproductions.gpu_networks import first_of_each, gpu_mesh, shared_links, with_active

FORMULATIONS: tuple[Formulation, ...] = ("separate", "overlapped", "pipelined")


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
    for calm, disturbed in ((paused[0], paused[1]), (paused[2], paused[3])):
        assert calm.ring == calm.rat == calm.parameter_server == pytest.approx(1.0)
        assert disturbed.ring > max(disturbed.rat, disturbed.parameter_server) > 1.2
    found = rat.summary(oversubscribed, paused)
    assert found["ring_slowdown_1ms"] < found["ring_slowdown"] < found["ring_slowdown_50ms"]
    text = " ".join(rat.explanation(found))
    assert "was not measured" in text
    parts = rat.TCP_PART["rat"] / rat.TCP_PART["parameter_server"]
    assert found["ps_over_rat_tcp"] == pytest.approx(found["ps_over_rat"] * parts)
    rows = json.loads((Path(__file__).parent.parent / "benchmarks/results/2026-11-16-incast.json").read_text())["rows"]
    for name, part in rat.TCP_PART.items():
        schedule = {"parameter_server": "parameter-server", "ring": "ring-ordered"}.get(name, name)
        measured = [row["part_of_fluid_rate"] for row in rows if row["schedule"] == schedule]
        assert part == pytest.approx(median(measured), abs=0.01)
    assert "chosen as the nearest of three" in text


@pytest.fixture
def unsimulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MOST_TRANSFERS", 0)


@pytest.mark.usefixtures("unsimulated")
@pytest.mark.parametrize("gbit", packing.GBITS)
@pytest.mark.parametrize("counts", [(4, 4), (2, 1, 1, 0), (1, 1, 1, 1), (3, 1, 0, 0), (2, 2, 2, 2), (8, 8)])
def test_packings_are_proved_and_never_behind_a_baseline(counts: tuple[int, ...], gbit: int) -> None:
    row = packing.row_of("", gbit, len(counts), 8 if max(counts) > 4 else 4, first_of_each(counts))
    assert row.quality > 0.99
    assert row.pipelined <= row.overlapped * (1 + packing.GAP) <= row.separate * (1 + packing.GAP) ** 2
    assert row.bound <= row.pipelined * (1 + 1e-9)
    for name, seconds in row.baselines.items():
        assert row.pipelined <= seconds * (1 + packing.GAP), f"{name} is faster"
        assert row.separate <= seconds * (1 + packing.GAP), f"{name} is faster without overlap"


@pytest.mark.usefixtures("unsimulated")
def test_the_papers_numbers_come_out_of_the_packings() -> None:
    for gbit in (10, 25, 40):
        found = packing.row_of("2x8", gbit, 2, 8, first_of_each((8, 8)))
        assert found.ratio >= packing.PAPER[f"all_active_{gbit}"]
    everywhere = packing.row_of("4x4", 100, 4, 4, first_of_each((4, 4, 4, 4)))
    assert everywhere.baselines["PS"] == pytest.approx(everywhere.pipelined, rel=packing.GAP)
    assert packing.row_of("", 10, 4, 4, first_of_each((2, 1, 1, 0))).ratio == pytest.approx(18.33, abs=0.03)
    overlapped = packing.row_of("", 25, 4, 4, first_of_each((1, 1, 1, 1)))
    assert overlapped.overlap_gain == pytest.approx(packing.PAPER["overlap_most"], abs=0.01)


def test_overlap_as_printed_saves_time_only_where_directions_differ() -> None:
    alike = with_active(gpu_mesh(2, 3, 25), first_of_each((2, 1)))
    separate, printed, free = (packing.packed(alike, formulation).value for formulation in FORMULATIONS)
    assert printed == pytest.approx(separate, rel=2 * packing.GAP)
    assert free < 0.95 * separate
    rates = {"ab": 1e9, "ac": 10e9, "ba": 2e9, "bc": 4e9, "ca": 1e9, "cb": 2e9}
    lopsided = Network(("a", "b", "c"), tuple(Link(ends[0], ends[1], rate) for ends, rate in rates.items()))
    assert pack(lopsided, "overlapped").value < 0.9 * pack(lopsided, "separate").value


def test_a_packing_of_merged_workers_is_a_schedule_of_all_that_is_as_fast() -> None:
    network = with_active(gpu_mesh(4, 4, 10), first_of_each((2, 1, 1, 0)))
    packed = packing.packed(network, "pipelined")
    forest = forest_of(network, packed)
    verify(forest)
    assert busiest_link(forest, network, 1.0) == pytest.approx(packed.value, rel=0.01)
    relays = {rank for tree in packed.trees for rank in range(16) if tree.parents[rank] > -2} - set(network.active)
    assert len(relays) == 12


@pytest.mark.parametrize("active", [2, 3, 5])
def test_hub_forests_reach_the_bound_of_a_mesh(active: int) -> None:
    network = with_active(gpu_mesh(2, 4, 100), [range(min(active, 4)), range(max(0, active - 4))])
    forest = packing_figure_6.hub_forest(network)
    verify(forest)
    least = packing_figure_6.mesh_bound(active, 8 - active)
    assert busiest_link(forest, network, packing.NBYTES) == pytest.approx(least, rel=1e-3)
    assert packing.packed(network, "pipelined").value * packing.NBYTES == pytest.approx(least, rel=2 * packing.GAP)


def test_figure_6_is_proved_on_a_dgx1() -> None:
    names = ("2G", "4H")
    network = with_active(gpu_mesh(2, 8, 100, dgx1=True), [packing_figure_6.CHOSEN[name] for name in names])
    row = packing_figure_6.row_of(names, network, dgx1=True)
    assert row.bound == bound(network, packing.NBYTES, latency=False).seconds
    assert row.bound <= row.ours < row.best <= row.best_pinned
    assert row.ratio > packing.PAPER["figure_6_least"]


def test_shared_links_between_machines_leave_nothing_to_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing_readings, "SETTINGS", ((4, 4), (1, 1, 1, 1)))
    own, own_partly, pair, _, machine, _ = packing_readings.shared_link_readings()
    assert own.most[10] > 3.9
    assert own_partly.most[10] > 15
    for reading in (pair, machine):
        assert max(reading.most.values()) < 1.01
        assert reading.unpipelined[100] > reading.unpipelined[10]
        assert reading.over_server > 3.9


def test_networks_are_what_the_readings_say() -> None:
    crossing = {
        between: sum(link.bandwidth for link in shared_links(2, 4, 10, between).links if link.bandwidth < 100e9 / 8)
        for between in packing_readings.READINGS
    }
    assert crossing == pytest.approx({"GPU pair": 32 * 10e9 / 8, "machine pair": 2 * 10e9 / 8, "machine": 4 * 10e9 / 8})
    network = with_active(gpu_mesh(2, 4, 10), first_of_each((2, 1)))
    assert [network.workers[rank] for rank in network.active] == ["m0g0", "m0g1", "m1g0"]
    # A parameter server sends the tensor twice over every link: the time that the paper's model gives it.
    network = gpu_mesh(2, 4, 10)
    assert busiest_link(parameter_server(network), network, 1.0) == pytest.approx(2 / 8 / (10e9 / 8))


def test_reproducing_packing_prints_tables_and_writes_a_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(packing, "SIZES", ((2, 4),))
    monkeypatch.setattr(packing, "COUNTS", ((2, 1, 1, 0),))
    monkeypatch.setattr(packing, "MOST_TRANSFERS", 20_000)
    monkeypatch.setattr(packing_figure_6, "DISTRIBUTIONS", (("2G",) * 8,))
    monkeypatch.setattr(packing_readings, "SETTINGS", ((4, 4), (1, 1, 0, 0)))
    page = tmp_path / "packing.html"
    assert main(["reproduce", "packing", "--json", "-o", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    first = found["figure_4"][0]
    assert first["simulated"]["ours"] > first["pipelined"]
    assert first["simulated"]["baseline"] / first["simulated"]["ours"] > 3
    assert found["ours"]["largest"]["10"][0] == pytest.approx(4.0, rel=0.01)
    assert "18.3" in found["explanation"][2]
    text = page.read_text()
    assert text.count("<figure>") == 4
    assert "(2,1,1,0)" in text


def test_a_page_that_cannot_be_written_is_refused_before_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "packing", "-o", "packing.gif"]) == 2
    assert "use .html, .svg, .png" in capsys.readouterr().err
