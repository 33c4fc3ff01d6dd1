from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from weft.cli import main
from weft.collectives import COLLECTIVES
from weft.msccl import from_msccl
from weft.proof import verify

EXAMPLES = Path(__file__).parent.parent / "examples"
NETWORK = str(EXAMPLES / "two-racks.yaml")

Captured = pytest.CaptureFixture[str]


def run(capsys: Captured, *arguments: str) -> str:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def as_json(capsys: Captured, *arguments: str) -> dict[str, Any]:
    document = json.loads(run(capsys, *arguments, "--json"))
    assert isinstance(document, dict)
    return document


def refused(capsys: Captured, *arguments: str) -> str:
    """The message of a command that ends with exit code 2."""
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert captured.err.startswith("weft")
    assert captured.err.count("\n") == 1, "one line, whatever was wrong"
    return captured.err


def test_several_mistakes_are_told_in_one_line(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    path.write_text(
        "workers: [a, b]\nlinks:\n  - {between: [a, b], bandwidth: fast}\n  - {between: [a, c], bandwidth: 1Gbit}\n"
    )
    told = refused(capsys, "show", str(path))
    assert "2 mistakes: " in told
    assert "; " in told
    assert "'c'" in told
    assert "fast" in told


def test_simulate_gives_the_fields_of_the_contract(capsys: Captured) -> None:
    found = as_json(capsys, "simulate", NETWORK, "--collective", "ring", "--size", "100MB")
    # 14 steps; while an uplink carries one chunk, the latency of the chunk before passes in the background.
    assert found["seconds"] == pytest.approx(14 / 8 * 1e8 / 1.25e9 + 220e-6)
    waiting = as_json(capsys, "simulate", NETWORK, "--collective", "ring", "--size", "100MB", "--channel", "blocking")
    assert waiting["seconds"] == pytest.approx(14 / 8 * 1e8 / 1.25e9 + 14 * 30e-6)
    assert found["bound_seconds"] == pytest.approx(0.14)
    assert (found["bytes"], found["workers"], found["collective"]) == (100_000_000, 8, "ring")
    assert (found["transfers"], found["depth"]) == (112, 14)
    assert found["link_bytes"]["tor-a>core"] == 175_000_000


def test_compare_has_every_collective_best_first(capsys: Captured) -> None:
    found = as_json(capsys, "compare", NETWORK, "--size", "100MB")
    assert {row["collective"] for row in found["results"]} == set(COLLECTIVES)
    times = [row["seconds"] for row in found["results"]]
    assert times == sorted(times)
    assert all(row["seconds"] >= row["bound_seconds"] * (1 - 1e-9) for row in found["results"])
    assert run(capsys, "compare", NETWORK, "--collectives", "ring,rat").count("\n") == 9


def test_names_may_have_underscores(capsys: Captured) -> None:
    assert (
        as_json(capsys, "simulate", NETWORK, "--collective", "ring_ordered", "--size", "1MB")["collective"]
        == "ring-ordered"
    )


def test_conditions_slow_things_down(capsys: Captured) -> None:
    base = ["simulate", NETWORK, "--collective", "ring", "--size", "100MB"]
    calm = as_json(capsys, *base)["seconds"]
    for condition in (
        ["--pause", "a0@0s..50ms"],
        ["--background", "2xa0>b1"],
        ["--slow", "tor-a>core*0.5"],
        ["--conditions", str(EXAMPLES / "conditions.yaml")],
        ["--add-cost", "100ms"],
    ):
        assert as_json(capsys, *base, *condition)["seconds"] > 1.05 * calm


def test_options_reach_the_collective(capsys: Captured) -> None:
    base = ["simulate", NETWORK, "--size", "1MB", "--collective"]
    assert as_json(capsys, *base, "parameter-server", "--option", "servers=1")["transfers"] == 14
    assert as_json(capsys, *base, "rat", "--option", "trees=all")["chunks"] == 32
    assert as_json(capsys, *base, "k-nomial", "--option", "k=8", "--segments", "4")["depth"] == 2
    assert as_json(capsys, *base, "ring", "--active", "a0,a1,b0")["workers"] == 3


def test_a_schedule_can_be_saved_and_simulated_again(capsys: Captured, tmp_path: Path) -> None:
    file = str(tmp_path / "rat.txt")
    first = as_json(capsys, "simulate", NETWORK, "--collective", "rat", "--size", "1MB", "--save-schedule", file)
    again = as_json(capsys, "simulate", NETWORK, "--schedule", file, "--size", "1MB")
    assert again == first


def test_a_trace_is_written_and_shown(capsys: Captured, tmp_path: Path) -> None:
    file = str(tmp_path / "trace.json")
    run(capsys, "simulate", NETWORK, "--collective", "ring", "--size", "1MB", "--trace", file)
    assert len([e for e in json.loads(Path(file).read_text())["traceEvents"] if e["ph"] == "X"]) == 112
    shown = run(capsys, "show", file, "--width", "60")
    assert "ring on two racks, 4:1: 112 spans" in shown
    assert max(map(len, shown.splitlines())) <= 60
    assert as_json(capsys, "show", file)["spans"] == 112


def test_plans_and_traces_are_known_by_what_they_hold(capsys: Captured, tmp_path: Path) -> None:
    run(capsys, "simulate", NETWORK, "--collective", "ring", "--size", "1MB", "--trace", str(tmp_path / "step.trace"))
    assert as_json(capsys, "show", str(tmp_path / "step.trace"))["spans"] == 112
    made = as_json(capsys, "plan", NETWORK, "--size", "1MB", "--time", "1s", "-o", str(tmp_path / "my.plan"))
    assert as_json(capsys, "show", str(tmp_path / "my.plan"))["digest"] == made["digest"]


def test_a_picture_does_not_take_the_json_away(capsys: Captured, tmp_path: Path) -> None:
    trace, plan, picture = (str(tmp_path / name) for name in ("t.json", "p.json", "x.svg"))
    run(capsys, "simulate", NETWORK, "--collective", "ring", "--size", "1MB", "--trace", trace)
    run(capsys, "plan", NETWORK, "--size", "1MB", "--time", "1s", "-o", plan)
    assert as_json(capsys, "show", trace, "-o", picture)["spans"] == 112
    assert as_json(capsys, "show", plan, "-o", picture)["workers"] == 8
    assert len(as_json(capsys, "show", NETWORK, "-o", picture)["links"]) == 20


def test_show_with_a_collective_has_what_simulate_has(capsys: Captured) -> None:
    shown = as_json(capsys, "show", NETWORK, "--collective", "ring", "--size", "1MB")
    simulated = as_json(capsys, "simulate", NETWORK, "--collective", "ring", "--size", "1MB")
    for field in ("seconds", "bound_seconds", "bytes", "collective", "transfers", "depth", "link_bytes"):
        assert shown[field] == simulated[field]
    assert len(shown["workers"]) == 8


def damaged(plan: dict[str, Any], **changes: Any) -> str:
    return json.dumps(plan | changes)


def test_a_damaged_plan_is_refused_in_one_line(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    run(capsys, "plan", NETWORK, "--size", "1MB", "--time", "1s", "-o", str(file))
    plan = json.loads(file.read_text())
    small = "workers: [a, b]\nlinks:\n  - {between: [a, b], bandwidth: 1Gbit}\n"
    for text, problem in (
        (damaged(plan, network=small), "a schedule for 8 workers, a network of 2"),
        (damaged(plan, seconds="soon"), "soon"),
        (damaged(plan, seconds=float("nan")), "nan is not a time"),
        (damaged(plan, bytes=0), "0 bytes in"),
        (damaged(plan, segments="x"), "'x'"),
        (damaged(plan, others=[["ring", None]]), "not a plan that Weft wrote"),
    ):
        file.write_text(text)
        message = refused(capsys, "show", str(file), "--json")
        assert problem in message
        assert message.count("\n") == 1


def test_show_describes_a_network(capsys: Captured) -> None:
    text = run(capsys, "show", NETWORK)
    assert "8 workers, 3 switches, 20 links" in text
    assert "rack a: a0 a1 a2 a3; out 10 Gbit/s, 4:1" in text
    assert "regions (inferred)" in run(capsys, "show", str(EXAMPLES / "interleaved.yaml"))
    assert len(as_json(capsys, "show", NETWORK)["links"]) == 20
    assert "ring of 100 MB" in run(capsys, "show", "dgx1", "--collective", "ring")


@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_show_draws(capsys: Captured, tmp_path: Path, ending: str) -> None:
    run(capsys, "simulate", NETWORK, "--collective", "ring", "--size", "1MB", "--trace", str(tmp_path / "t.json"))
    calls = [[NETWORK], [NETWORK, "--collective", "rat"], [str(tmp_path / "t.json")]]
    if ending != "html":
        calls += [[NETWORK, "--collective", "rat", "--picture", kind] for kind in ("trees", "timeline")]
    for i, call in enumerate(calls):
        path = tmp_path / f"{i}.{ending}"
        run(capsys, "show", *call, "-o", str(path))
        assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["simulate", NETWORK, "--collective", "ring", "--size", "0"], "a size of 0B is too small"),
        (["simulate", NETWORK, "--collective", "ring", "--size", "12 parsecs"], "'12 parsecs' is not a size"),
        (
            ["simulate", NETWORK, "--collective", "rign", "--size", "1MB"],
            "there is no collective 'rign'; did you mean 'ring'?",
        ),
        (["simulate", NETWORK, "--size", "1MB"], "give either --collective NAME or --schedule FILE"),
        (["simulate", NETWORK, "--collective", "ring"], "--size"),
        (["simulate", "nowhere.yaml", "--collective", "ring", "--size", "1MB"], "cannot read nowhere.yaml"),
        (["simulate", "nowhere", "--collective", "ring", "--size", "1MB"], "there is no file 'nowhere'"),
        (
            ["simulate", NETWORK, "--collective", "ring", "--size", "1MB", "--pause", "z9@0s..1s"],
            "there is no node 'z9'",
        ),
        (["simulate", NETWORK, "--collective", "ring", "--size", "1MB", "--pause", "a0"], "nothing moves after"),
        (["simulate", NETWORK, "--collective", "ring", "--size", "1MB", "--option", "x=1"], "ring has no option 'x=1'"),
        (
            ["simulate", NETWORK, "--collective", "rat", "--size", "1MB", "--option", "trees=0"],
            "0 trees are not possible",
        ),
        (
            ["simulate", NETWORK, "--collective", "k-nomial", "--size", "1MB", "--option", "k=x"],
            "k-nomial: k = 'x' is not a whole number",
        ),
        (
            ["simulate", NETWORK, "--collective", "parameter-server", "--size", "1MB", "--option", "servers=1.5"],
            "servers = '1.5' is not a whole number",
        ),
        (
            ["simulate", NETWORK, "--collective", "forest", "--size", "1MB", "--option", "seconds=x"],
            "forest: seconds = 'x' is not a number",
        ),
        (
            ["simulate", NETWORK, "--collective", "ring", "--size", "1MB", "--segments", "0"],
            "0 segments are not possible",
        ),
        (
            ["simulate", NETWORK, "--collective", "ring", "--size", "1MB", "--active", "a0,zz"],
            "there is no worker 'zz'",
        ),
        (["simulate", NETWORK, "--schedule", NETWORK, "--size", "1MB"], "a schedule begins with"),
        (["simulate", NETWORK, "--collective", "ring", "--size", "1MB", "--trace", "/nowhere/t.json"], "cannot write"),
        (["compare", "two_tier:racks=none"], "racks = 'none' is not a number"),
        (["compare", "two_tier:racks"], "is not of the form name=value"),
        (["compare", NETWORK, "--collectives", "ring,rang"], "there is no collective 'rang'"),
        (["compare", NETWORK, "--segments", "many"], "'many' segments are not possible"),
        (["show", NETWORK, "-o", "picture.gif"], ".svg"),
        (["show", NETWORK, "-o", "x.svg", "--picture", "trees"], "needs a collective"),
        (["reproduce", "nothing"], "there is nothing to reproduce called 'nothing'"),
        (["fly"], "invalid choice"),
        ([], "required"),
    ],
)
def test_bad_input_gets_one_clear_message_and_exit_code_2(capsys: Captured, arguments: list[str], problem: str) -> None:
    message = refused(capsys, *arguments)
    assert problem in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("workers: [a, b]\nlinks:\n  - {between: [a, x], bandwidth: 1Gbit}\n", "there is no node 'x'"),
        ("workers: [a, b]\nlinks:\n  - {between: [a, b], bandwidth: -1Gbit}\n", "a bandwidth of -1Gbit"),
        ("workers: [a, b, c]\nlinks:\n  - {between: [a, b], bandwidth: 1Gbit}\n", "'c' is not connected"),
        ("workers: [a, a]\nlinks: []\n", "the name 'a' is taken"),
        ("- a\n- b\n", "a network file is a map"),
        ("\x00\x01" * 5_000_000, "this is not YAML"),
    ],
    ids=["missing node", "negative rate", "disconnected worker", "duplicate name", "not a map", "garbage"],
)
def test_a_bad_network_file_gets_one_clear_message(
    capsys: Captured, tmp_path: Path, content: str, problem: str
) -> None:
    path = tmp_path / "network.yaml"
    path.write_text(content)
    for verb in (["compare"], ["simulate", "--collective", "ring", "--size", "1MB"], ["show"]):
        message = refused(capsys, verb[0], str(path), *verb[1:])
        assert problem in message
        assert "network.yaml:" in message


def test_the_command_works_from_a_shell_and_stops_when_nobody_reads() -> None:
    command = f"{sys.executable} -m weft compare {NETWORK} --collectives ring | head -1"
    ran = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("100 MB on two racks")
    assert ran.stderr == ""


def test_every_example_is_a_network_that_compares(capsys: Captured) -> None:
    for path in sorted(EXAMPLES.glob("*.yaml")):
        if path.stem != "conditions":
            assert as_json(capsys, "compare", str(path), "--size", "1MB", "--segments", "1")["results"]


def test_plan_gives_the_fields_of_the_contract_and_a_file(capsys: Captured, tmp_path: Path) -> None:
    file, document = str(tmp_path / "plan.json"), tmp_path / "plan.xml"
    found = as_json(capsys, "plan", "dgx1", "--size", "10MB", "-o", file, "--msccl", str(document))
    assert found["seconds"] >= found["bound_seconds"] > 0
    assert found["bytes"] == 10_000_000
    assert "of the bound" in found["why"]
    assert sum(tree["share"] for tree in found["trees"]) == pytest.approx(1.0, abs=1e-3)
    assert all(len(tree["reduce"]) >= 7 for tree in found["trees"])
    assert as_json(capsys, "show", file)["digest"] == found["digest"]
    assert found["why"] in run(capsys, "show", file)
    verify(from_msccl(document.read_text()))
    for ending in ("svg", "html"):
        run(capsys, "show", file, "-o", str(tmp_path / f"plan.{ending}"))
        assert (tmp_path / f"plan.{ending}").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["plan", NETWORK, "--size", "nothing"], "is not a size"),
        (["plan", NETWORK, "--size", "1MB", "--time", "0s"], "--time must be more than 0"),
        (["plan", NETWORK, "--size", "1MB", "-o", "/nowhere/plan.json"], "cannot write"),
        (["plan", NETWORK], "--size"),
    ],
)
def test_bad_input_to_plan_is_refused(capsys: Captured, arguments: list[str], problem: str) -> None:
    assert problem in refused(capsys, *arguments)
