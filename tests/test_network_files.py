from __future__ import annotations

from pathlib import Path

import pytest

from weft import Network, NetworkError

GOOD = """\
name: two racks, 4:1
workers: [a0, a1, b0, b1]
switches: [tor-a, tor-b, core]
inactive: []
links:
  - {between: [a0, tor-a], bandwidth: 10Gbit, latency: 5us}
  - {between: [a1, tor-a], bandwidth: 10Gbit, latency: 5us}
  - {between: [b0, tor-b], bandwidth: 10Gbit, latency: 5us}
  - {between: [b1, tor-b], bandwidth: 10Gbit, latency: 5us}
  - {between: [tor-a, core], bandwidth: 5Gbit, latency: 10us}
  - {between: [tor-b, core], bandwidth: 5Gbit, latency: 10us}
regions:
  - {name: rack a, workers: [a0, a1]}
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(NetworkError) as caught:
        Network.parse(text, "net.yaml")
    return [str(mistake) for mistake in caught.value.mistakes]


def test_the_file_of_the_documentation_is_read() -> None:
    network = Network.parse(GOOD)
    assert network.name == "two racks, 4:1"
    assert network.workers == ("a0", "a1", "b0", "b1")
    assert len(network.links) == 12
    assert network.links[0].bandwidth == 1.25e9
    assert network.links[0].latency == 5e-6
    assert [region.workers for region in network.regions or ()] == [("a0", "a1")]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[a0, tor-a]", "[a0, tor-x]", "net.yaml:6:5: there is no node 'tor-x'; did you mean 'tor-b'?"),
        ("bandwidth: 5Gbit", "bandwidth: -5Gbit", "net.yaml:10:41: a bandwidth of -5Gbit is not possible"),
        ("bandwidth: 5Gbit", "bandwidth: quick", "net.yaml:10:41: 'quick' is not a bandwidth"),
        ("latency: 5us", "latency: 5 parsecs", "net.yaml:6:56: '5 parsecs' is not a time"),
        ("[a0, a1, b0, b1]", "[a0, a1, b0, b0]", "net.yaml:2:23: the name 'b0' is taken already"),
        ("workers: [a0, a1, b0", "workers: [a0, z9, a1, b0", "net.yaml:2:15: 'z9' is not connected to 'a0'"),
        ("inactive: []", "inactive: [c7]", "net.yaml:4:12: there is no worker 'c7'"),
        ("inactive:", "inactve:", "net.yaml:4:1: there is no key 'inactve'; did you mean 'inactive'?"),
        ("between: [a0, tor-a], ", "", "net.yaml:6:5: a link is between two nodes"),
        ("bandwidth: 10Gbit, latency", "latency", "net.yaml:6:5: the link has no bandwidth"),
        ("{name: rack a, workers: [a0, a1]}", "rack a", "net.yaml:13:5: a region is a map"),
        ("switches: [tor-a", "switches: &x [tor-a", ""),
        ("switches: [tor-a, tor-b, core]", "switches: core", "net.yaml:3:11: switches is a list"),
        ("inactive: []", "routing: sometimes", "net.yaml:4:10: 'sometimes' is unknown: use pinned or split"),
        ("inactive: []", "inactive: [a0, a1, b0, b1]", "net.yaml:4:1: every worker is inactive"),
        ("inactive: []", "workers: [a0]", "net.yaml:4:1: the key 'workers' is given twice"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_a_remedy(old: str, new: str, expected: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if not expected:
        assert Network.parse(text).workers
        return
    found = mistakes(text)
    assert any(line.startswith(expected) for line in found), found


def test_all_mistakes_are_reported_at_once() -> None:
    text = (
        GOOD.replace("[a0, tor-a]", "[a0, tor-x]", 1)
        .replace("5Gbit", "0Gbit", 1)
        .replace("workers: [a0, a1]}", "workers: [q]}")
    )
    found = mistakes(text)
    assert len(found) == 3
    assert [line.split(":")[1] for line in found] == ["10", "6", "13"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a\n- b\n",
        "just words",
        "{",
        "a: [1, 2",
        "workers: {a: b}",
        "!!python/object/apply:os.system [ls]",
        "a: &x 1\nb: *x\n",
        "\x00",
    ],
)
def test_what_is_not_a_network_is_refused_in_few_words(text: str) -> None:
    found = mistakes(text)
    assert 1 <= len(found) <= 3
    assert all(line.startswith("net.yaml:") for line in found)


def test_ten_megabytes_of_garbage_are_refused(tmp_path: Path) -> None:
    for name, content in {
        "bytes": bytes(range(256)) * 40_000,
        "letters": b"abcdefghij" * 1_000_000,
        "brackets": b"[" * 10_000_000,
        "lines": b"a: 1\n" * 2_000_000,
    }.items():
        path = tmp_path / f"{name}.yaml"
        path.write_bytes(content)
        with pytest.raises(NetworkError) as caught:
            Network.load(path)
        assert len(str(caught.value)) < 400


def test_one_way_links_go_one_way() -> None:
    text = GOOD.replace("bandwidth: 5Gbit, latency: 10us}", "bandwidth: 5Gbit, latency: 10us, one_way: true}")
    assert mistakes(text)[0].startswith("net.yaml:2:19: 'b0' is not connected")
    back = text.replace(
        "regions:",
        "  - {between: [core, tor-a], bandwidth: 1Gbit, one_way: true}\n  - {between: [core, tor-b], bandwidth: 1Gbit}\nregions:",
    )
    assert "given twice" in mistakes(back)[0]


def test_a_file_may_be_made_of_parts() -> None:
    network = Network.parse("""
name: two sites
parts:
  - {name: north, builder: two_tier, racks: 2, workers_per_rack: 2, bandwidth: 10Gbit, oversubscription: 2}
  - {name: south, builder: dgx1}
workers: [lonely]
switches: [wan]
links:
  - {between: [north/core, wan], bandwidth: 1Gbit, latency: 1ms}
  - {between: [south/g0, wan], bandwidth: 1Gbit, latency: 1ms}
  - {between: [lonely, wan], bandwidth: 1Gbit}
""")
    assert len(network.workers) == 4 + 8 + 1
    assert [region.name for region in network.region_tree.regions] == ["north", "south"]
    assert Network.parse(network.to_yaml()) == network


def test_a_part_that_cannot_be_is_reported() -> None:
    parts = [
        "{name: n, builder: two_tear}",
        "{name: m, builder: two_tier, racks: -1}",
        "{name: o, builder: two_tier, rocks: 2}",
    ]
    text = "parts:\n" + "".join(f"  - {part}\n" for part in parts)
    found = mistakes(text)
    assert any("net.yaml:2:5: there is no builder 'two_tear'; did you mean 'two_tier'?" in line for line in found)
    assert any("net.yaml:3:5: racks = -1 is not possible" in line for line in found)
    assert any("net.yaml:4:5: two_tier has no 'rocks'; did you mean 'racks'?" in line for line in found)


def test_a_saved_file_loads_and_nothing_else_is_left(tmp_path: Path) -> None:
    network = Network.parse(GOOD)
    network.save(tmp_path / "net.yaml")
    assert Network.load(tmp_path / "net.yaml") == network
    assert [path.name for path in tmp_path.iterdir()] == ["net.yaml"]


def test_names_that_yaml_would_misread_survive() -> None:
    text = "workers: [no, '1', 'a b', \"c:d\", 'it''s']\nswitches: [s]\nlinks:\n" + "".join(
        f"  - {{between: [{name}, s], bandwidth: 1Gbit}}\n" for name in ("no", "'1'", "'a b'", '"c:d"', "'it''s'")
    )
    network = Network.parse(text)
    assert network.workers == ("no", "1", "a b", "c:d", "it's")
    assert Network.parse(network.to_yaml()) == network
