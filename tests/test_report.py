"""The pictures and the page: what they must show, and that the same input gives the same bytes."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

import weft
from weft import collectives
from weft.errors import InputError
from weft.network import (
    Link,
    Network,
    bcube,
    both_ways,
    combined,
    dgx1,
    fat_tree,
    full_mesh,
    machines,
    spine_leaf,
    two_tier,
)
from weft.report import (
    Layout,
    Section,
    html_page,
    layout_of,
    network_figure,
    save_figure,
    svg_text,
    timeline_figure,
    trees_figure,
)
from weft.report.chunk_trees import chunk_tree, heaviest_chunks
from weft.report.lanes import lanes_of, stacked
from weft.report.layout import workers_layout
from weft.report.link_labels import link_labels
from weft.report.link_lines import line_widths, link_curves
from weft.report.shapes import Floats
from weft.report.spacing import spaced
from weft.report.words import fitting, natural_order, shortened, text_width
from weft.schedule import Schedule, Transfer
from weft.trace import Span, Trace

TWO_RACKS = two_tier(2, 4, oversubscription=4)
SWITCH_RING = Network(
    tuple(f"w{i}" for i in range(8)),
    both_ways(
        [Link(f"w{i}", f"s{i // 2}", 1e9) for i in range(8)] + [Link(f"s{i}", f"s{(i + 1) % 4}", 1e9) for i in range(4)]
    ),
    tuple(f"s{i}" for i in range(4)),
)
WITH_HEAD = Network(
    ("head", *(f"n{i}" for i in range(6))),
    both_ways(
        [Link("head", "core", 4e9)]
        + [Link(f"n{i}", f"tor{i // 3}", 1e9) for i in range(6)]
        + [Link(f"tor{i}", "core", 1e9) for i in range(2)]
    ),
    ("tor0", "tor1", "core"),
)
NETWORKS = {
    "two racks": TWO_RACKS,
    "eight racks": two_tier(8, 8),
    "one rack": two_tier(1, 5),
    "spines": spine_leaf(2, 4, 8),
    "fat tree": fat_tree(4),
    "BCube": bcube(4, 1),
    "deep BCube": bcube(3, 2),
    "DGX-1": dgx1(),
    "mesh": full_mesh(6),
    "pair": full_mesh(2),
    "one worker": full_mesh(1),
    "large mesh": full_mesh(64),
    "machines": machines(4, 8, inside="dgx1"),
    "small machines": machines(3, 4, inside="nvlink"),
    "ring of switches": SWITCH_RING,
    "worker at the core": WITH_HEAD,
    "two sites": combined({"east": two_tier(2, 3), "west": dgx1()}, both_ways([Link("east/core", "west/g0", 1e9)])),
    "two DGX-1": combined({"left": dgx1(), "right": dgx1()}, both_ways([Link("left/g0", "right/g0", 1e9)])),
    "inactive": TWO_RACKS.with_active(["a0", "b1", "b2"]),
    "thousand": two_tier(32, 32),
    "many racks": two_tier(128, 2),
}
over_networks = pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)


def texts(svg: str) -> list[str]:
    """All texts of a picture."""
    elements = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(element.itertext()).strip() for element in elements]


def boxes(layout: Layout) -> Floats:
    return np.hstack([layout.at - layout.size / 2, layout.at + layout.size / 2])


def overlapping(some: Floats, slack: float = 1e-6) -> list[tuple[int, int]]:
    """The pairs of boxes that overlap."""
    low, high = some[:, None, :2] + slack, some[:, None, 2:] - slack
    both = ((low < np.swapaxes(high, 0, 1)) & (np.swapaxes(low, 0, 1) < high)).all(axis=2)
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(both, 1))]


def loaded(network: Network) -> dict[str, float]:
    return weft.simulate(collectives.rat(network), network, 1e8).utilisation


# Layout


@over_networks
def test_no_two_nodes_are_at_the_same_place(network: Network) -> None:
    assert overlapping(boxes(layout_of(network))) == []


@over_networks
def test_everything_lies_inside_the_picture(network: Network) -> None:
    layout = layout_of(network)
    edges = boxes(layout)
    assert edges.min() >= 0
    assert edges[:, 2].max() <= layout.width
    assert edges[:, 3].max() <= layout.height
    for region in layout.regions:
        assert region.outline.min() - region.rounding >= 0
        assert region.outline[:, 0].max() + region.rounding <= layout.width
        assert region.outline[:, 1].max() + region.rounding <= layout.height


@over_networks
def test_workers_of_a_region_stand_side_by_side(network: Network) -> None:
    layout = layout_of(network)
    if layout.circular:
        centre = np.array([layout.width, layout.height]) / 2
        turn = np.arctan2(*(layout.at - centre).T) % (2 * np.pi)
        order = np.argsort(turn)
    else:
        order = np.argsort(layout.at[: len(network.workers), 0])
    place = np.empty(len(order), dtype=int)
    place[order] = np.arange(len(order))
    for region in network.regions or ():
        places = sorted(int(place[network.node_numbers[name]]) for name in region.workers)
        assert places[-1] - places[0] == len(places) - 1, region.name


@over_networks
def test_a_region_is_drawn_around_its_workers_alone(network: Network) -> None:
    layout = layout_of(network)
    if layout.circular:
        return
    inside = {region.name: set(region.workers) for region in network.regions or ()}
    for region in layout.regions:
        (left, low), (right, high) = region.outline.min(axis=0), region.outline.max(axis=0)
        at = layout.at[: len(network.workers)]
        found = (left < at[:, 0]) & (at[:, 0] < right) & (low < at[:, 1]) & (at[:, 1] < high)
        assert {network.workers[i] for i in np.flatnonzero(found)} == inside[region.name]


@pytest.mark.parametrize("name", ["two racks", "eight racks", "fat tree", "machines", "thousand", "many racks"])
def test_there_is_a_gap_between_regions(name: str) -> None:
    network = NETWORKS[name]
    x = layout_of(network).at[: len(network.workers), 0]
    racks = np.array([next(i for i, r in enumerate(network.regions or ()) if w in r.workers) for w in network.workers])
    steps, same = np.diff(x), racks[1:] == racks[:-1]
    assert steps[~same].min() > 1.2 * steps[same].max()


@over_networks
def test_switches_stand_above_workers_and_above_what_is_nearer_to_them(network: Network) -> None:
    layout = layout_of(network)
    count = len(network.workers)
    if len(layout.at) == count:
        return
    assert layout.at[count:, 1].min() > layout.at[:count, 1].max()
    assert len(set(layout.at[:count, 1].tolist())) == 1


def test_a_core_stands_in_the_middle_above_the_racks_and_a_rack_switch_above_its_workers() -> None:
    layout = layout_of(TWO_RACKS)
    at = dict(zip(TWO_RACKS.nodes, layout.at.tolist(), strict=True))
    assert at["tor-a"][0] == pytest.approx(np.mean([at[f"a{i}"][0] for i in range(4)]))
    assert at["core"][0] == pytest.approx((at["tor-a"][0] + at["tor-b"][0]) / 2)
    assert at["core"][1] > at["tor-a"][1] == at["tor-b"][1] > at["a0"][1]


def test_a_switch_with_a_worker_of_its_own_still_stands_above_the_switches_it_joins() -> None:
    layout = layout_of(WITH_HEAD)
    at = dict(zip(WITH_HEAD.nodes, layout.at.tolist(), strict=True))
    assert at["core"][1] > at["tor0"][1] == at["tor1"][1]


def test_the_levels_of_a_bcube_are_rows() -> None:
    network = bcube(4, 1)
    row = dict(zip(network.nodes, layout_of(network).row.tolist(), strict=True))
    assert {row[f"s0-{i}"] for i in range(4)} == {1}
    assert {row[f"s1-{i}"] for i in range(4)} == {2}


def test_a_thousand_workers_lose_their_names_but_not_their_regions() -> None:
    layout = layout_of(NETWORKS["thousand"])
    assert not any(layout.labels[:1024])
    assert [region.label for region in layout.regions] == [region.name for region in layout.regions]
    assert layout.width < 25


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=30), st.data())
def test_spaced_places_keep_their_order_and_distance(wanted: list[float], data: st.DataObject) -> None:
    gaps = np.array(data.draw(st.lists(st.floats(0, 5), min_size=len(wanted) - 1, max_size=len(wanted) - 1)))
    places = spaced(np.sort(wanted), gaps)
    assert (np.diff(places) >= gaps - 1e-9).all()
    assert places.mean() == pytest.approx(np.mean(wanted), abs=1e-6)


def test_places_that_are_far_enough_apart_are_kept() -> None:
    assert spaced(np.array([0.0, 3.0, 9.0]), np.array([1.0, 2.0])).tolist() == [0.0, 3.0, 9.0]


# Words


@given(st.text(max_size=60), st.floats(0, 3))
def test_a_fitting_text_fits(text: str, width: float) -> None:
    short = fitting(text, width)
    assert text_width(short) <= width
    assert short == text or text_width(text) > width


def test_shortened_texts_keep_both_ends() -> None:
    short = shortened("node-17.cluster.example.com", 11)
    assert len(short) == 11
    assert short.startswith("node-")
    assert short.endswith(".com")


def test_names_are_ordered_by_their_numbers() -> None:
    assert sorted(["a10", "b1", "a2", "a1"], key=natural_order) == ["a1", "a2", "a10", "b1"]


# The network


@pytest.mark.parametrize(
    "name", ["two racks", "eight racks", "fat tree", "BCube", "DGX-1", "mesh", "machines", "inactive"]
)
def test_every_name_is_in_the_picture(name: str) -> None:
    network = NETWORKS[name]
    shown = texts(svg_text(network_figure(network, loaded(network))))
    assert set(network.nodes) <= set(shown)
    assert {region.name for region in network.regions or ()} <= set(shown)


@over_networks
def test_labels_of_busy_links_cover_nothing(network: Network) -> None:
    if len(network.workers) < 2 or len(network.workers) > 100:
        return
    layout = layout_of(network)
    bandwidths = network.graph.bandwidth
    curves = link_curves(network, layout, line_widths(bandwidths, float(bandwidths.min()), len(bandwidths)))
    load = loaded(network)
    loads = np.array([load.get(link.name, 0.0) for link in network.links])
    labels = link_labels(network.graph, layout, curves, loads)
    assert len(labels) <= 6
    assert overlapping(np.vstack([boxes(layout), *(label.box for label in labels)])) == []


def test_the_busiest_link_is_labelled_with_its_load() -> None:
    load = {"a0>tor-a": 0.31, "tor-a>core": 0.87}
    shown = texts(svg_text(network_figure(TWO_RACKS, load)))
    assert [text for text in shown if text.endswith(" 87%")] == ["↗ 87%"]
    assert not any(text.endswith(" 31%") for text in shown)
    assert any("tor-a>core" in text for text in shown)


def test_without_load_there_is_no_scale() -> None:
    assert "utilisation" in texts(svg_text(network_figure(TWO_RACKS, {})))
    assert "utilisation" not in texts(svg_text(network_figure(TWO_RACKS)))


def test_the_legend_has_the_bandwidths_if_they_are_few() -> None:
    few = texts(svg_text(network_figure(two_tier(2, 4, uplink=5e9))))
    assert {"10 Gbit/s", "40 Gbit/s"} <= set(few)
    rates = [1e9, 2e9, 3e9, 4e9, 5e9]
    network = Network(tuple("abcde"), both_ways(Link(w, "s", r) for w, r in zip("abcde", rates, strict=True)), ("s",))
    many = texts(svg_text(network_figure(network)))
    assert {"slowest, 8 Gbit/s", "fastest, 40 Gbit/s"} <= set(many)
    assert "24 Gbit/s" not in many


def test_links_with_more_bandwidth_have_wider_lines() -> None:
    widths = line_widths(np.array([1.0, 2.0, 4.0]), 1.0, 10)
    assert widths[0] < widths[1] < widths[2]
    assert widths[2] - widths[1] == pytest.approx(widths[1] - widths[0])


def test_the_two_directions_of_a_cable_are_two_lines() -> None:
    for network in (TWO_RACKS, dgx1(), SWITCH_RING):
        layout = layout_of(network)
        curves = link_curves(network, layout, np.ones(len(network.links)))
        middles = curves.mean(axis=1)
        number = {link.name: i for i, link in enumerate(network.links)}
        for link in network.links:
            there, back = middles[number[link.name]], middles[number[link.reversed().name]]
            assert np.hypot(*(there - back)) > 0.005, link.name


def test_a_load_of_no_link_is_refused() -> None:
    with pytest.raises(InputError, match="a0>core"):
        network_figure(TWO_RACKS, {"a0>core": 0.5})


def test_names_are_written_as_they_are() -> None:
    odd = ("a$x^2$b", "<b", "東京", "x_y")
    network = Network(odd, both_ways(Link(odd[0], other, 1e9) for other in odd[1:]))
    shown = texts(svg_text(network_figure(network, title="$\\frac{1}{2}$ & <more>")))
    assert {*odd, "$\\frac{1}{2}$ & <more>"} <= set(shown)


# Trees


@pytest.mark.parametrize(
    "name", ["rat", "ring", "double-binary-tree", "halving-doubling", "parameter-server", "hierarchical"]
)
@pytest.mark.parametrize("network", [TWO_RACKS, dgx1()], ids=["racks", "circle"])
def test_every_chunk_has_a_root_that_holds_the_sum_first(name: str, network: Network) -> None:
    schedule = collectives.COLLECTIVES[name](network)
    for chunk in range(len(schedule.chunk_weights)):
        root = chunk_tree(schedule, chunk).root
        assert root == _slow_root(schedule, chunk)


def _slow_root(schedule: Schedule, chunk: int) -> int | None:
    """The definition: run the schedule on sets."""
    single = schedule.expanded()
    held = {rank: {rank} for rank in range(schedule.workers)}
    before = dict(held)
    for i, transfer in enumerate(single):
        if transfer.chunk != chunk:
            continue
        sent = before[transfer.source] if single.exchanges[i] else held[transfer.source]
        before = dict(held)
        held[transfer.destination] = sent | (held[transfer.destination] if transfer.op == "reduce" else set())
        if len(held[transfer.destination]) == schedule.workers:
            return transfer.destination
    return None


def test_a_ring_ends_where_its_chunk_was_not_sent_on() -> None:
    network = two_tier(1, 4)
    schedule = collectives.ring(network)
    assert {chunk_tree(schedule, chunk).root for chunk in range(4)} == {0, 1, 2, 3}


def test_a_tree_has_the_transfers_of_its_chunk_alone_even_in_spans() -> None:
    transfers = [Transfer(0, 1, 0, "reduce", 2), Transfer(2, 1, 1, "reduce"), Transfer(1, 2, 1, "copy")]
    schedule = Schedule.of_transfers(3, 2, transfers)
    tree = chunk_tree(schedule, 1)
    assert tree.reduces.tolist() == [[0, 1], [2, 1]]
    assert tree.copies.tolist() == [[1, 2]]
    assert chunk_tree(schedule, 0).reduces.tolist() == [[0, 1]]
    assert tree.root == 1
    assert chunk_tree(schedule, 0).root is None


def test_the_heaviest_chunks_come_first_with_their_share_and_root() -> None:
    up = [Transfer(0, 1, chunk, "reduce") for chunk in range(3)]
    schedule = Schedule.of_transfers(2, [1, 6, 3], [*up, *(Transfer(1, 0, chunk, "copy") for chunk in range(3))])
    assert heaviest_chunks(schedule, 2) == [1, 2]
    shown = texts(svg_text(trees_figure(schedule, full_mesh(2), most=2)))
    heads = [text for text in shown if text.startswith("chunk")]
    assert heads == ["chunk 1: 60%, root w1", "chunk 2: 30%, root w1"]
    assert any(text.startswith("2 of 3 chunks") and "90%" in text for text in shown)


@over_networks
def test_trees_are_drawn_on_every_network(network: Network) -> None:
    schedule = collectives.double_binary_tree(network)
    shown = texts(svg_text(trees_figure(schedule, network)))
    named = workers_layout(network, 0.5, 0.5).labels
    assert set(filter(None, named)) <= set(shown)


def test_a_schedule_for_other_workers_is_refused() -> None:
    with pytest.raises(InputError, match="8 workers"):
        trees_figure(collectives.ring(TWO_RACKS), full_mesh(6))


# Timelines


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=60))
def test_spans_of_a_sublane_never_overlap_and_no_sublane_is_too_many(times: list[tuple[int, int]]) -> None:
    spans = [Span("w", "t", "x", float(start), float(start + length)) for start, length in sorted(times)]
    places = stacked(spans)
    for i, (one, place) in enumerate(zip(spans, places, strict=True)):
        for other, same in zip(spans[:i], places[:i], strict=True):
            if place == same:
                assert other.end <= one.start
    most = max((sum(s.start <= t.start < s.end for s in spans) for t in spans), default=0)
    empty = sum(span.start == span.end for span in spans)
    assert max(places, default=-1) + 1 <= most + empty


def test_a_timeline_shows_every_worker_and_the_kinds_of_spans() -> None:
    trace = weft.simulate(collectives.ring(TWO_RACKS), TWO_RACKS, 1e8).trace
    shown = texts(svg_text(timeline_figure(trace)))
    assert set(TWO_RACKS.workers) <= set(shown)
    assert {"reduce", "copy", "time (ms)", trace.title} <= set(shown)
    assert sum(text.startswith("reduce ") for text in shown) == 8 * 7


@pytest.mark.parametrize(("seconds", "unit"), [(3.0, "s"), (0.02, "ms"), (4e-5, "us")])
def test_the_unit_of_time_suits_the_trace(seconds: float, unit: str) -> None:
    trace = Trace("a trace", (Span("w0", "w0>w1", "forward", 0.0, seconds, "compute"),))
    assert {f"time ({unit})", "compute"} <= set(texts(svg_text(timeline_figure(trace))))


def test_a_timeline_of_many_workers_shows_the_first_and_says_so() -> None:
    trace = Trace("many", tuple(Span(f"w{i}", "t", "x", 0.0, 1.0) for i in range(50)))
    shown = texts(svg_text(timeline_figure(trace)))
    assert "w39" in shown
    assert "w40" not in shown
    assert any("50 workers" in text and "first 40 workers" in text for text in shown)


def test_a_timeline_never_has_more_spans_than_allowed() -> None:
    spans = tuple(Span(f"w{i % 4}", "t", "x", float(i), i + 0.5) for i in range(400))
    assert [len(lane.spans) for lane in lanes_of(Trace("", spans), 40, most_spans=250)] == [100, 100]
    assert [len(lane.spans) for lane in lanes_of(Trace("", spans), 40, most_spans=30)] == [30]


def test_an_empty_trace_is_a_picture_too() -> None:
    assert "nothing" in texts(svg_text(timeline_figure(Trace("nothing", ()))))


# Files


def pictures() -> list[Figure]:
    schedule = collectives.rat(TWO_RACKS)
    result = weft.simulate(schedule, TWO_RACKS, 1e8)
    return [
        network_figure(TWO_RACKS, result.utilisation),
        network_figure(machines(2, 8, inside="dgx1")),
        trees_figure(schedule, TWO_RACKS),
        timeline_figure(result.trace),
    ]


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_the_same_input_gives_the_same_bytes(tmp_path: Path, ending: str) -> None:
    for name in ("one", "two"):
        for i, figure in enumerate(pictures()):
            save_figure(figure, tmp_path / f"{name}-{i}{ending}")
            save_figure(figure, tmp_path / f"{name}-{i}-again{ending}")
    for i in range(4):
        contents = {path.read_bytes() for path in tmp_path.glob(f"*-{i}*{ending}")}
        assert len(contents) == 1


def test_files_are_what_their_ending_says(tmp_path: Path) -> None:
    figure = network_figure(TWO_RACKS)
    save_figure(figure, tmp_path / "x.PNG")
    save_figure(figure, str(tmp_path / "x.svg"))
    assert (tmp_path / "x.PNG").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.fromstring((tmp_path / "x.svg").read_text()).tag.endswith("svg")
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["picture.pdf", "picture", "picture.svg.gz"])
def test_an_unknown_ending_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"\.svg or \.png"):
        save_figure(network_figure(TWO_RACKS), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        save_figure(network_figure(TWO_RACKS), tmp_path / "nowhere" / "x.svg")


def test_pictures_use_no_global_state_of_matplotlib() -> None:
    program = (
        "import sys, weft; assert 'matplotlib' not in sys.modules;"
        "from weft.report import network_figure, svg_text; from weft.network import two_tier;"
        "import matplotlib; before = matplotlib.rcParams.copy(); svg_text(network_figure(two_tier()));"
        "assert 'matplotlib.pyplot' not in sys.modules; assert before == matplotlib.rcParams.copy()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# The page


class Reader(HTMLParser):
    """Collects what a page has, and fails where tags do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.note(tag, attrs)
        if tag not in ("meta", "br", "img", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.note(tag, attrs)

    def note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in ("href", "xlink:href", "src") and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_a_page_escapes_every_text() -> None:
    bad = "<b>\"&'</b><script>alert(1)</script>"
    section = Section(bad, (bad,), (bad, "n"), ((bad, "1"),), svg_text(network_figure(TWO_RACKS)), bad)
    reader = read(html_page(bad, [section]))
    assert "b" not in reader.tags
    assert "script" not in reader.tags
    assert reader.text.count(bad) == 7


def test_a_page_needs_nothing_from_elsewhere_and_has_no_id_twice() -> None:
    svg = svg_text(network_figure(TWO_RACKS, loaded(TWO_RACKS)))
    reader = read(html_page("twice", [Section("one", svg=svg), Section("two", svg=svg)]))
    assert reader.tags.count("svg") == 2
    assert len(reader.ids) == len(set(reader.ids))
    assert all(link.startswith(("#", "data:")) for link in reader.links)
    assert {link[1:] for link in reader.links if link.startswith("#")} <= set(reader.ids)
    assert not {"script", "link", "img", "iframe"} & set(reader.tags)


def test_a_page_is_semantic_and_suits_small_and_dark_screens() -> None:
    svg = svg_text(network_figure(TWO_RACKS))
    page = html_page(
        "A plan", [Section("Times", ("Short.",), ("name", "time"), (("ring", "12 ms"),)), Section("Map", svg=svg)]
    )
    reader = read(page)
    assert reader.tags.count("h1") == 1
    assert reader.tags.count("section") == reader.tags.count("h2") == 2
    assert {"main", "table", "thead", "th", "figure"} <= set(reader.tags)
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert '<td class="number">12 ms</td>' in page
    assert "<td>ring</td>" in page


def test_names_in_inlined_pictures_stay_as_they_are() -> None:
    network = Network(('url(#x) id="y"', "b"), both_ways([Link('url(#x) id="y"', "b", 1e9)]))
    assert 'url(#x) id="y"' in read(html_page("odd", [Section("x", svg=svg_text(network_figure(network)))])).text


def test_a_table_with_a_short_row_and_a_picture_that_is_none_are_refused() -> None:
    with pytest.raises(InputError, match=r"row 1 .* has 1 cells"):
        Section("t", columns=("a", "b"), rows=(("1", "2"), ("3",)))
    with pytest.raises(InputError, match="no SVG"):
        Section("t", svg="<html>")
