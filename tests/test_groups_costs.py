"""What methods cost: the paper's formulas, and the simulator on real networks."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.collectives import COLLECTIVES
from weft.errors import InputError, ProofError
from weft.groups import (
    Everybody,
    ExponentialGraph,
    GroupTimes,
    RandomMatching,
    Round,
    Setting,
    divide_and_shuffle,
    ds_sync_groups,
    in_parts,
    method_times,
    serving_seconds,
    side_by_side,
    table_1,
    table_2,
)
from weft.network import Network, full_mesh, two_tier
from weft.proof import verify
from weft.simulation import Background, Conditions, simulate

RATE, HOP, SIZE = 1e9, 1e-4, 1e8

settings_of_racks = st.builds(
    lambda racks, rack, hop, inside, slower, calls, servers, chunks: Setting(
        racks * rack, SIZE, hop, inside, inside * slower, racks, calls, servers, chunks
    ),
    st.integers(2, 6), st.integers(2, 8), st.floats(0, 1e-3), st.floats(1e-10, 1e-8), st.floats(1, 10), st.integers(1, 50),
    st.integers(1, 8), st.integers(1, 64),
)  # fmt: skip


@given(settings_of_racks)
def test_table_1_is_the_papers(s: Setting) -> None:
    n, alpha, beta, k = s.workers, s.hop * s.calls, s.inside, s.chunks
    costs = table_1(s)
    assert costs["parameter-server"].latency == pytest.approx(2 * (n - 1) * alpha)
    assert costs["parameter-server"].transfer == pytest.approx(2 * (n - 1) * SIZE * beta / s.servers)
    assert costs["ring"].latency == pytest.approx(2 * (n - 1) * alpha)
    assert costs["ring"].transfer == pytest.approx(2 * (n - 1) * SIZE * beta / n)
    assert costs["double-binary-tree"].latency == pytest.approx(2 * (log2(n) + k) * alpha)
    assert costs["double-binary-tree"].transfer == pytest.approx(2 * (log2(n) + k) * SIZE * beta / k)


@given(settings_of_racks)
def test_table_2_is_the_papers_with_its_erratum(s: Setting) -> None:
    g, c, alpha = s.rack, s.racks, s.hop * s.calls
    costs = table_2(s)
    crossing = 2 * ((c - 1) * g * SIZE * s.between + (g - 1) * SIZE * s.inside) / s.servers
    assert costs["parameter-server"].transfer == pytest.approx(crossing)
    assert costs["ring"].transfer == pytest.approx(2 * (s.workers - 1) * SIZE * s.between / s.workers)
    assert costs["hierarchical"].latency == pytest.approx(2 * (g + c - 2) * alpha)
    both = 2 * (g - 1) * SIZE * s.inside / g + 2 * (c - 1) * SIZE * s.between / c
    assert costs["hierarchical"].transfer == pytest.approx(both)
    assert costs["gossip"].transfer == pytest.approx(4 * SIZE * s.between)
    pair, home = ds_sync_groups(s)
    assert pair.latency == pytest.approx(2 * alpha)
    assert pair.transfer == pytest.approx(2 * SIZE * s.between)
    assert home.latency == pytest.approx(2 * (g - 2) * alpha), "the erratum: G - 1 workers take 2(G - 2) hops"
    assert home.transfer == pytest.approx(2 * (g - 2) * SIZE * s.inside / (g - 1))
    assert costs["ds-sync"].seconds == max(pair.seconds, home.seconds)


def test_uneven_racks_have_no_formula() -> None:
    with pytest.raises(InputError, match="racks have the same size"):
        Setting(7, SIZE, HOP, 1e-9, 1e-9, racks=2)


@pytest.mark.parametrize("workers", [2, 3, 5, 8])
def test_the_simulated_ring_takes_what_table_1_says(workers: int) -> None:
    network = full_mesh(workers, RATE, HOP)
    found = simulate(COLLECTIVES["ring"](network), network, SIZE).seconds
    assert found == pytest.approx(table_1(Setting(workers, SIZE, HOP, 1 / RATE, 1 / RATE))["ring"].seconds)


@pytest.mark.parametrize("servers", [1, 2, 6])
def test_simulated_parameter_servers_take_what_table_1_says(servers: int) -> None:
    network = two_tier(1, 6, RATE)
    found = simulate(COLLECTIVES["parameter-server"](network, servers=servers), network, SIZE).seconds
    stated = table_1(Setting(6, SIZE, 0, 1 / RATE, 1 / RATE, servers=servers))["parameter-server"].transfer
    if servers == 1:
        assert found == pytest.approx(stated)
    else:
        # A server that is a worker sends itself nothing, and sends the sums while it still receives.
        assert 0.4 * stated < found <= stated


@pytest.mark.parametrize(("racks", "rack"), [(2, 4), (4, 3)])
def test_the_simulated_hierarchy_takes_what_table_2_says(racks: int, rack: int) -> None:
    network = two_tier(racks, rack, RATE, uplink=RATE / 2)
    found = simulate(COLLECTIVES["hierarchical"](network), network, SIZE).seconds
    stated = table_2(Setting(racks * rack, SIZE, 0, 1 / RATE, 2 / RATE, racks))["hierarchical"].seconds
    assert found == pytest.approx(stated)


@pytest.mark.parametrize("rack", [3, 4, 6])
def test_simulated_groups_take_what_table_2_says_of_ds_sync(rack: int) -> None:
    network = two_tier(2, rack, RATE, uplink=RATE / 4)
    pattern = divide_and_shuffle(network)
    pair, home = ds_sync_groups(Setting(2 * rack, SIZE, 0, 1 / RATE, 4 / RATE, 2))
    time = GroupTimes(network, SIZE, collective="ring-ordered").round(pattern.round(0))
    assert time.groups[0, rack] == pytest.approx(pair.transfer / 2), "links carry both ways at once"
    assert time.groups[tuple(range(1, rack))] == pytest.approx(home.transfer)
    assert time.seconds == max(time.groups.values())


def test_groups_that_share_a_link_slow_each_other_down() -> None:
    network = two_tier(2, 2, RATE, uplink=RATE)
    times = GroupTimes(network, SIZE)
    alone, both = times.round(Round(((0, 2), (1,), (3,)))), times.round(Round(((0, 2), (1, 3))))
    assert both.seconds == pytest.approx(2 * alone.seconds)
    assert times.round(Round(((0, 1), (2, 3)))).seconds == pytest.approx(alone.seconds), "racks have links of their own"


@given(st.sets(st.integers(0, 7), min_size=2), st.sampled_from(["ring", "halving-doubling", "hierarchical", None]))
@settings(max_examples=30, deadline=None)
def test_the_schedule_of_a_group_is_proved_for_its_members(members: set[int], collective: str | None) -> None:
    times = GroupTimes(two_tier(2, 4, RATE), SIZE, collective=collective)
    schedule = times.schedule(tuple(sorted(members)))
    assert schedule.participants == tuple(sorted(members))
    assert schedule.workers == 8
    assert verify(schedule).participants == len(members)


def test_schedules_side_by_side_are_no_all_reduce_and_move_what_each_moves_alone() -> None:
    network = two_tier(2, 5, RATE)
    times = GroupTimes(network, SIZE, collective="ring")
    groups = [(0, 5), (1, 2, 3, 4), (6, 7, 8)]
    together = side_by_side([times.schedule(group) for group in groups])
    with pytest.raises(ProofError):
        verify(together)
    sizes = together.transfer_bytes(len(groups) * SIZE)
    alone = np.concatenate([times.schedule(group).transfer_bytes(SIZE) for group in groups])
    np.testing.assert_allclose(sizes, alone, rtol=1e-12)
    parted = side_by_side([times.schedule(group) for group in groups], [2, 1, 1])
    alone[: len(times.schedule(groups[0]))] /= 2
    np.testing.assert_allclose(parted.transfer_bytes(2.5 * SIZE), alone, rtol=1e-12)
    with pytest.raises(InputError, match="cannot run side by side"):
        side_by_side([times.schedule((0, 1)), COLLECTIVES["ring"](full_mesh(3))])


def test_weights_that_have_no_small_common_multiple_are_rounded() -> None:
    network = full_mesh(200, RATE)
    primes = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31]
    starts = np.cumsum([0, *primes]).tolist()
    groups = [tuple(range(starts[i], starts[i + 1])) for i in range(len(primes))]
    times = GroupTimes(network, SIZE, collective="ring")
    together = side_by_side([times.schedule(group) for group in groups])
    alone = np.concatenate([times.schedule(group).transfer_bytes(SIZE) for group in groups])
    np.testing.assert_allclose(together.transfer_bytes(len(groups) * SIZE), alone, rtol=1e-9)


def test_gossip_on_racks_has_many_connections_across_the_uplink() -> None:
    network = two_tier(2, 4, RATE, uplink=RATE)
    times = GroupTimes(network, SIZE)
    pattern = ExponentialGraph(network.active)
    seconds = [times.round(pattern.round(step)).seconds for step in range(3)]
    assert seconds == pytest.approx([SIZE / RATE, 2 * SIZE / RATE, 4 * SIZE / RATE])


def test_a_step_in_which_nobody_meets_takes_no_time() -> None:
    times = GroupTimes(two_tier(2, 2, RATE), SIZE)
    local = times.pattern(Everybody((0, 1, 2, 3), every=4))
    assert local.longest == pytest.approx(4 * local.seconds)
    assert times.round(Round(((0,), (1,)))).seconds == 0


def test_a_worker_behind_a_contended_uplink_waits_longer_for_its_server() -> None:
    network = two_tier(2, 3, RATE, uplink=RATE)
    seconds = serving_seconds(network, SIZE, servers=1)
    assert seconds[0] == 0, "the server is worker 0 itself"
    assert set(seconds) == set(range(6))
    contended = serving_seconds(network, SIZE, 1, Conditions([Background("b2", "a2", flows=8)]))
    assert contended[3] > 1.3 * seconds[3]
    assert serving_seconds(full_mesh(1), SIZE) == {0: 0.0}
    with pytest.raises(InputError, match="7 servers"):
        serving_seconds(network, SIZE, servers=7)


def _scenario() -> Network:
    return two_tier(2, 4, RATE, uplink=RATE)


def test_with_a_contended_uplink_ds_sync_is_the_fastest_of_all_methods() -> None:
    flows = Conditions([Background("tor-a", "tor-b"), Background("tor-b", "tor-a")])
    found = method_times(_scenario(), SIZE, flows, slow_uplinks=(0, 1))
    others = ("ring", "ring-ordered", "hierarchical", "parameter-server", "gossip", "gossip, random pairs")
    assert all(found["ds-sync"].seconds < found[name].seconds for name in others)
    assert found["ring"].exact
    assert not found["ds-sync"].exact
    assert found["asp"].rate is None
    assert not found["local-sgd"].exact


def test_in_parts_a_pattern_takes_as_long_as_its_rounds() -> None:
    """However long a period is: of one that lasts longer than what is simulated, the first rounds count, each once."""
    times = GroupTimes(two_tier(2, 4, RATE), SIZE)
    matching = RandomMatching(tuple(range(8)), seed=1, period=100)
    for pattern in (divide_and_shuffle(two_tier(2, 4, RATE)), matching):
        whole, parts = times.pattern(pattern), times.pattern(in_parts(pattern, 50))
        assert (whole.seconds, whole.rounds) == (parts.seconds, parts.rounds)
    first = [times.round(matching.round(step)).seconds for step in range(64)]
    assert times.pattern(matching).seconds == pytest.approx(sum(first) / 64)
