from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from strategies import networks
from weft import (
    Background,
    Conditions,
    InputError,
    Link,
    Network,
    Pause,
    Schedule,
    SimulationError,
    Slow,
    Trace,
    Transfer,
)
from weft.collectives import COLLECTIVES, parameter_server, rat, ring
from weft.network import both_ways, spine_leaf, two_tier
from weft.simulation import link_loads, rotating_pauses, simulate
from weft.simulation.conditions_text import conditions_from_file, parse_background, parse_pause, parse_slow

RATE = 1e9


def pair(latency: float = 0.0) -> Network:
    return Network(("a", "b"), both_ways([Link("a", "b", RATE, latency)]))


def hub(n: int, latency: float = 0.0) -> Network:
    return Network(
        tuple(f"w{i}" for i in range(n)), both_ways([Link(f"w{i}", "s", RATE, latency) for i in range(n)]), ("s",)
    )


def send(*transfers: tuple[int, int], workers: int = 2, chunks: int | None = None) -> Schedule:
    """Unrelated transfers, each with its own chunk of the same size."""
    listed = [Transfer(source, destination, i, "reduce") for i, (source, destination) in enumerate(transfers)]
    return Schedule.of_transfers(workers, chunks or len(listed), listed)


def seconds(
    schedule: Schedule,
    network: Network,
    nbytes: float = RATE,
    *conditions: weft.simulation.Condition,
    **options: object,
) -> float:
    return weft.simulate(schedule, network, nbytes, Conditions(conditions), **options).seconds  # type: ignore[arg-type]


def test_one_transfer_takes_latency_and_its_bytes() -> None:
    assert seconds(send((0, 1)), pair(0.25)) == pytest.approx(1.25)


def test_a_channel_carries_one_transfer_after_the_other() -> None:
    schedule = send((0, 1), (0, 1))
    assert seconds(schedule, pair(0.25)) == pytest.approx(0.5 + 0.5 + 0.25)
    assert seconds(schedule, pair(0.25), channel="blocking") == pytest.approx(2 * (0.25 + 0.5))
    assert seconds(schedule, pair(0.25), channel="shared") == pytest.approx(0.25 + 1.0)


def test_flows_share_a_link_evenly_and_the_rest_takes_what_is_left() -> None:
    # Both flows leave w0, so each gets half; w2>w3 is alone.
    schedule = send((0, 1), (0, 2), (2, 3), workers=4)
    result = weft.simulate(schedule, hub(4), 3e9)
    assert result.ended.tolist() == pytest.approx([2.0, 2.0, 1.0])


def test_a_flow_held_back_elsewhere_leaves_its_share_to_others() -> None:
    links = both_ways([Link("a", "s", 1e9), Link("b", "s", 1e9), Link("c", "s", 0.25e9)])
    network = Network(("a", "b", "c"), links, ("s",))
    result = weft.simulate(send((0, 1), (0, 2), workers=3), network, 1.5e9)
    assert result.ended.tolist() == pytest.approx([1.0, 3.0])


def test_shares_can_follow_round_trip_times() -> None:
    links = both_ways([Link("a", "s", 1e9), Link("b", "s", 4e9, 1e-9), Link("c", "s", 4e9, 3e-9)])
    network = Network(("a", "b", "c"), links, ("s",))
    result = weft.simulate(send((0, 1), (0, 2), workers=3), network, 2e9, rtt_weights=True)
    # 3:1 until the first is done, after 1 / 0.75 s; the other then has two thirds left.
    assert result.ended.tolist() == pytest.approx([1 / 0.75, 2.0], rel=1e-6)


def test_a_transfer_waits_for_what_its_source_has_to_add_first() -> None:
    chain = Schedule.of_transfers(3, 1, [Transfer(0, 1, 0, "reduce"), Transfer(1, 2, 0, "reduce")])
    assert seconds(chain, hub(3)) == pytest.approx(2.0)


def test_additions_take_time_one_at_a_time_at_each_worker() -> None:
    gather = Schedule.of_transfers(
        3, 1, [Transfer(0, 2, 0, "reduce"), Transfer(1, 2, 0, "reduce"), Transfer(2, 0, 0, "copy")]
    )
    plain = seconds(gather, hub(3))
    slow = seconds(gather, hub(3), add_seconds_per_byte=1e-9)
    assert plain == pytest.approx(3.0)
    assert slow == pytest.approx(2.0 + 2 * 1.0 + 1.0)


def test_the_end_waits_for_the_last_addition() -> None:
    assert seconds(send((0, 1)), pair(), add_seconds_per_byte=1e-9) == pytest.approx(2.0)


def test_out_of_order_arrivals_are_applied_in_the_order_of_the_list() -> None:
    # Worker 2 sends on after the first reduction only, although the second arrives long before it.
    links = both_ways([Link("a", "c", 0.5e9), Link("b", "c", 2e9), Link("c", "d", 1e9)])
    network = Network(("a", "b", "c", "d"), links)
    lines = [
        Transfer(0, 2, 0, "reduce"),
        Transfer(2, 3, 0, "reduce"),
        Transfer(1, 2, 0, "reduce"),
        Transfer(2, 3, 0, "copy"),
    ]
    result = weft.simulate(Schedule.of_transfers(4, 1, lines), network, 1e9)
    assert result.ended.tolist() == pytest.approx([2.0, 3.0, 0.5, 4.0])


def test_a_paused_worker_sends_nothing_but_receives() -> None:
    schedule = send((0, 1), (1, 0))
    result = weft.simulate(schedule, pair(), 2e9, Conditions([Pause("a", 0.5, 2.0)]))
    assert result.ended.tolist() == pytest.approx([2.5, 1.0])


def test_overlapping_pauses_end_with_the_last() -> None:
    assert seconds(send((0, 1)), pair(), RATE, Pause("a", 0.0, 1.0), Pause("a", 0.5, 2.0)) == pytest.approx(3.0)


def test_a_link_slows_stops_and_recovers() -> None:
    assert seconds(send((0, 1)), pair(), RATE, Slow("a>b", 0.5, 0.5, 1.5)) == pytest.approx(1.5)
    assert seconds(send((0, 1)), pair(), RATE, Slow("a>b", 0.0, 0.5, 2.0)) == pytest.approx(2.5)
    assert seconds(send((0, 1)), pair(), RATE, Slow("b>a", 0.0)) == pytest.approx(1.0)
    assert seconds(send((0, 1)), pair(), RATE, Slow("a>b", 0.5, 0.0, 1.0), Slow("a>b", 0.5, 0.0, 1.0)) == pytest.approx(
        1.75
    )


def test_background_flows_take_their_share_while_they_last() -> None:
    assert seconds(send((0, 1)), pair(), RATE, Background("a", "b")) == pytest.approx(2.0)
    assert seconds(send((0, 1)), pair(), RATE, Background("a", "b", flows=3)) == pytest.approx(4.0)
    assert seconds(send((0, 1)), pair(), RATE, Background("a", "b", nbytes=0.25e9)) == pytest.approx(1.25)
    assert seconds(send((0, 1)), pair(), RATE, Background("a", "b", start=0.5, end=1.0)) == pytest.approx(1.25)
    through = Background("w2", "w1", 0.0)
    assert seconds(send((0, 1), workers=3), hub(3), RATE, through) == pytest.approx(2.0)


def test_nothing_hangs_when_nothing_can_move() -> None:
    with pytest.raises(
        SimulationError, match=r"nothing moves after 0\.5 s: 1 of 1 transfers wait for stopped links a>b"
    ):
        seconds(send((0, 1)), pair(), RATE, Slow("a>b", 0.0, 0.5))
    with pytest.raises(SimulationError, match="paused workers a"):
        seconds(send((0, 1)), pair(), RATE, Pause("a"))


def test_conditions_of_what_is_not_there_are_refused() -> None:
    for condition in (Pause("z"), Slow("a>z", 0.5), Background("a", "z")):
        with pytest.raises(InputError, match="there is no"):
            seconds(send((0, 1)), pair(), RATE, condition)
    with pytest.raises(InputError, match="only a worker can pause"):
        seconds(send((0, 1), workers=2), hub(2), RATE, Pause("s"))
    for wrong in (
        Pause("a", 2.0, 1.0),
        Slow("a>b", -1.0),
        Background("a", "a"),
        Background("a", "b", flows=0),
        Pause("a", math.nan),
    ):
        with pytest.raises(InputError, match="is not possible"):
            Conditions([wrong])


def test_impossible_calls_are_refused() -> None:
    schedule = send((0, 1))
    with pytest.raises(InputError, match="for 2 workers, but"):
        weft.simulate(schedule, hub(3), 1e6)
    for nbytes in (0, -1, math.inf, math.nan):
        with pytest.raises(InputError, match="bytes is not possible"):
            weft.simulate(schedule, pair(), nbytes)
    with pytest.raises(InputError, match="channel 'lossy'"):
        weft.simulate(schedule, pair(), 1e6, channel="lossy")  # type: ignore[arg-type]


def test_chunks_of_no_bytes_take_latency_alone() -> None:
    schedule = Schedule.of_transfers(2, [0, 1], [Transfer(0, 1, 0, "reduce"), Transfer(1, 0, 1, "reduce")])
    result = weft.simulate(schedule, pair(0.25), RATE)
    assert result.ended.tolist() == pytest.approx([0.25, 1.25])


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 40), st.floats(1e3, 1e12), st.sampled_from([0.0, 1e-6, 1e-3]))
def test_the_ring_takes_its_closed_form_exactly(n: int, nbytes: float, alpha: float) -> None:
    network = hub(n, alpha / 2)
    expected = 2 * (n - 1) / n * nbytes / RATE + 2 * (n - 1) * alpha
    assert weft.simulate(ring(network), network, nbytes).seconds == pytest.approx(expected, rel=1e-12)


def test_bytes_on_links_are_counted() -> None:
    network = two_tier(2, 2, oversubscription=2)
    result = weft.simulate(ring(network), network, 4e6)
    assert result.link_bytes["a0>tor-a"] == pytest.approx(6e6)
    assert result.link_bytes["tor-a>core"] == pytest.approx(6e6)
    assert len(result.link_bytes) == len(network.links)
    assert max(result.utilisation.values()) == pytest.approx(1.0)
    split = spine_leaf(2, 2, 1)
    from dataclasses import replace

    even = weft.simulate(ring(replace(split, routing="split")), replace(split, routing="split"), 1e6)
    assert even.link_bytes["leaf-a>spine-0"] == pytest.approx(even.link_bytes["leaf-a>spine-1"]) == pytest.approx(0.5e6)


def test_the_critical_path_names_the_bottleneck_in_words() -> None:
    network = two_tier(2, 4, RATE, uplink=RATE / 4)
    result = weft.simulate(parameter_server(network), network, 1e8)
    assert "uplink tor-" in result.bottleneck
    assert "of rack" in result.bottleneck
    assert "100% of the time" in weft.simulate(ring(network), network, 1e8).bottleneck
    path = weft.simulate(ring(network), network, 1e8).critical_path
    assert len(path) == 14
    assert path[0].start == 0.0
    assert all(a.end == pytest.approx(b.start) for a, b in itertools.pairwise(path))
    assert path[-1].link == "tor-a>core" or path[-1].link == "tor-b>core"


def test_a_pause_shows_as_waiting_on_the_path() -> None:
    result = weft.simulate(send((0, 1)), pair(0.1), RATE, Conditions([Pause("a", 0.0, 0.5)]))
    assert result.seconds == pytest.approx(0.5 + 1.0 + 0.1)
    assert result.held_up_by["latency"] == pytest.approx(0.1 / 1.6)


def test_a_trace_survives_its_file() -> None:
    network = two_tier(2, 2, latency=5e-6)
    trace = weft.simulate(rat(network), network, 1e6).trace
    again = Trace.parse(trace.to_json())
    assert again.title == trace.title
    assert len(again.spans) == len(trace.spans) == len(rat(network))
    for a, b in zip(trace.spans, again.spans, strict=True):
        assert (a.worker, a.track, a.name, a.category) == (b.worker, b.track, b.name, b.category)
        assert (a.start, a.end) == pytest.approx((b.start, b.end))
    for text in ("", "{}", "[1]", '{"traceEvents": [], "otherData": {"weft_trace": 99}}'):
        with pytest.raises(InputError, match="trace"):
            Trace.parse(text)


def test_rotating_pauses_are_the_same_for_the_same_seed_and_hit_that_many_workers() -> None:
    network = two_tier(2, 8)
    pauses = rotating_pauses(network, 3, 0.1, 1.0, seed=5)
    assert pauses == rotating_pauses(network, 3, 0.1, 1.0, seed=5)
    assert pauses != rotating_pauses(network, 3, 0.1, 1.0, seed=6)
    assert len(pauses.conditions) == 30
    assert len({p.worker for p in pauses.conditions[:3] if isinstance(p, Pause)}) == 3


def test_conditions_are_read_from_texts() -> None:
    assert parse_pause("a0") == Pause("a0")
    assert parse_pause("a0@10ms..0.5s") == Pause("a0", 0.01, 0.5)
    assert parse_background("a0>b1") == Background("a0", "b1")
    assert parse_background("4xa0>b1:500MB@1s..") == Background("a0", "b1", 1.0, math.inf, 5e8, 4)
    assert parse_slow("tor-a>core*0.25@1s..2s") == Slow("tor-a>core", 0.25, 1.0, 2.0)
    for text, parse in (
        ("a0b1", parse_background),
        ("a>b", parse_slow),
        ("a>b*fast", parse_slow),
        ("a@soon", parse_pause),
    ):
        with pytest.raises(InputError, match="is not a"):
            parse(text)


def test_conditions_are_read_from_files_with_all_mistakes(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "conditions.yaml"
    path.write_text(
        "conditions:\n  - {pause: a0, from: 0.1s, until: 0.3s}\n"
        "  - {background: a0>b1, size: 500MB, flows: 4}\n  - {slow: tor-a>core, factor: 0.25, from: 1s}\n"
    )
    assert conditions_from_file(path).conditions == (
        Pause("a0", 0.1, 0.3), Background("a0", "b1", nbytes=5e8, flows=4), Slow("tor-a>core", 0.25, 1.0)
    )  # fmt: skip
    path.write_text("conditions:\n  - {pause: a0, untill: 1s}\n  - {slow: a>b}\n  - nothing\n")
    with pytest.raises(InputError) as caught:
        conditions_from_file(path)
    assert [line.split(": ")[0].rsplit(":", 2)[1] for line in str(caught.value).splitlines()[1:]] == ["2", "3", "4"]
    assert "did you mean 'until'?" in str(caught.value)
    path.write_text("conditions:\n  - {background: 4xa0>b1@1s..2s}\n")
    with pytest.raises(InputError, match="say the rest by flows, from, until and size"):
        conditions_from_file(path)


def test_a_pause_hurts_a_ring_far_more_when_messages_share_their_channel() -> None:
    network = two_tier(2, 8, RATE)
    pauses = Conditions([Pause("a0", 0.001, 0.02)])
    slowdown = {
        channel: seconds(ring(network), network, 1e7, *pauses.conditions, channel=channel)
        / seconds(ring(network), network, 1e7, channel=channel)
        for channel in ("stream", "shared")
    }
    assert slowdown["shared"] > 2 * slowdown["stream"]


@settings(deadline=None, max_examples=40)
@given(network=networks, name=st.sampled_from(["ring", "rat", "parameter-server"]), unfairness=st.floats(0, 1))
def test_costs_of_messages_and_unfairness_never_make_a_link_faster(
    network: Network, name: str, unfairness: float
) -> None:
    schedule = COLLECTIVES[name](network)
    if not len(schedule):
        return
    fluid = simulate(schedule, network, 1e6)
    uneven = simulate(schedule, network, 1e6, unfairness=unfairness)
    busiest = float((link_loads(schedule, network, 1e6) / network.graph.bandwidth).max())
    assert uneven.seconds >= busiest * (1 - 1e-9)
    assert simulate(schedule, network, 1e6, unfairness=unfairness).seconds == uneven.seconds
    costly = simulate(schedule, network, 1e6, message_seconds=1e-3)
    assert costly.seconds >= max(busiest, schedule.depth * 1e-3) * (1 - 1e-9)
    assert costly.link_bytes == fluid.link_bytes


def test_a_message_takes_its_seconds_at_least_at_every_step_of_a_ring() -> None:
    network = two_tier(2, 4, bandwidth=1e8)
    whole = simulate(ring(network), network, 8e6).seconds
    assert whole == pytest.approx(14 * 1e-2)
    assert simulate(ring(network), network, 8e6, message_seconds=1e-3).seconds == pytest.approx(whole)
    assert simulate(ring(network), network, 8e6, message_seconds=0.05).seconds == pytest.approx(14 * 0.05)
    tiny = simulate(ring(network), network, 8.0, message_seconds=1e-3, wake_seconds=2e-3).seconds
    assert tiny == pytest.approx(14 * 3e-3)
    assert simulate(ring(network), network, 8e6, efficiency=0.8).seconds == pytest.approx(whole / 0.8)
    with pytest.raises(InputError, match="an efficiency of 0"):
        simulate(ring(network), network, 8e6, efficiency=0.0)
    with pytest.raises(InputError, match="a cost of messages"):
        simulate(ring(network), network, 8e6, message_seconds=-1.0)
    with pytest.raises(InputError, match="an unfairness"):
        simulate(ring(network), network, 8e6, unfairness=float("nan"))


def test_uneven_connections_hold_up_an_all_to_all_but_not_a_ring() -> None:
    network = two_tier(2, 4, bandwidth=1e8)
    for collective, slower in ((ring, False), (parameter_server, True)):
        fair = simulate(collective(network), network, 8e6).seconds
        assert (simulate(collective(network), network, 8e6, unfairness=0.3).seconds > 1.1 * fair) == slower
