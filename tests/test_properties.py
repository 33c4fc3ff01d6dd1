"""Every collective on any network: proved, simulated, never faster than it can be."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from reference import reference_seconds
from strategies import networks, random_networks
from weft import Network, Schedule
from weft.collectives import COLLECTIVES
from weft.simulation.simulate import Channel

any_collective = st.sampled_from(sorted(COLLECTIVES))
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.mark.parametrize("name", sorted(COLLECTIVES))
@settings(relaxed, max_examples=25)
@given(network=networks, nbytes=st.integers(1, 10**9))
def test_every_collective_is_proved_and_simulated_within_its_limits(name: str, network: Network, nbytes: int) -> None:
    schedule = COLLECTIVES[name](network)
    weft.verify(schedule)
    result = weft.simulate(schedule, network, nbytes)
    assert math.isfinite(result.seconds)
    assert result.seconds >= weft.bound(network, nbytes).seconds * (1 - 1e-9)
    busiest = max(
        (result.link_bytes[x.name] / x.bandwidth for x in network.links if x.name in result.link_bytes), default=0.0
    )
    assert result.seconds >= busiest * (1 - 1e-9)
    assert sum(result.held_up_by.values()) == pytest.approx(1.0 if len(schedule) else 0.0, rel=1e-6)


@settings(relaxed, max_examples=80)
@given(
    network=random_networks(most_workers=6),
    name=any_collective,
    segments=st.integers(1, 3),
    channel=st.sampled_from(["stream", "blocking", "shared"]),
    rtt=st.booleans(),
)
def test_the_simulator_agrees_with_the_obvious_one(
    network: Network, name: str, segments: int, channel: Channel, rtt: bool
) -> None:
    schedule = COLLECTIVES[name](network).segmented(segments)
    result = weft.simulate(schedule, network, 1e7, channel=channel, rtt_weights=rtt)
    expected = reference_seconds(schedule, network, 1e7, channel=channel, rtt_weights=rtt)
    assert result.seconds == pytest.approx(expected, rel=1e-6)


@settings(relaxed, max_examples=40)
@given(network=networks, name=any_collective, segments=st.integers(2, 5))
def test_segmenting_keeps_a_schedule_correct_and_its_bytes(network: Network, name: str, segments: int) -> None:
    schedule = COLLECTIVES[name](network)
    finer = schedule.segmented(segments)
    weft.verify(finer)
    assert len(finer) == segments * len(schedule.expanded())
    assert finer.depth == schedule.depth
    assert finer.transfer_bytes(1e6).sum() == pytest.approx(schedule.transfer_bytes(1e6).sum())


@settings(relaxed, max_examples=40)
@given(network=networks, name=any_collective)
def test_a_schedule_parses_back_from_its_text(network: Network, name: str) -> None:
    schedule = COLLECTIVES[name](network)
    again = Schedule.parse(schedule.to_text())
    assert again == schedule
    assert again.digest == schedule.digest
    assert again.name == schedule.name


@settings(relaxed, max_examples=60)
@given(network=networks, name=any_collective, data=st.data())
def test_dropping_any_transfer_is_caught(network: Network, name: str, data: st.DataObject) -> None:
    transfers = list(COLLECTIVES[name](network))
    if not transfers:
        return
    del transfers[data.draw(st.integers(0, len(transfers) - 1))]
    whole = COLLECTIVES[name](network)
    broken = Schedule.of_transfers(whole.workers, whole.chunk_weights.copy(), transfers, whole.participants)
    with pytest.raises(weft.ProofError, match=r"chunk \d+: worker \d+ ends with the contribution of worker \d+"):
        weft.verify(broken)


@settings(relaxed, max_examples=60)
@given(network=networks)
def test_a_network_parses_back_from_its_file(network: Network) -> None:
    assert Network.parse(network.to_yaml()) == network


@settings(relaxed, max_examples=40)
@given(network=networks, data=st.data())
def test_routes_lead_from_source_to_destination(network: Network, data: st.DataObject) -> None:
    source, destination = data.draw(st.sampled_from(network.workers)), data.draw(st.sampled_from(network.workers))
    if source == destination:
        return
    route = network.routes([network.number(source)], [network.number(destination)])
    flow = dict.fromkeys(network.nodes, 0.0)
    for number, share in zip(route.links, route.share, strict=True):
        flow[network.links[number].source] += share
        flow[network.links[number].destination] -= share
    expected = {source: 1.0, destination: -1.0}
    assert all(flow[node] == pytest.approx(expected.get(node, 0.0)) for node in flow)
