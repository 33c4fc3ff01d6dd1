"""What methods send, counted message by message, against Table 1 of SparDL; and what teams="auto" makes of it."""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
import pytest

from sparse_cases import normal, summed, team_cases, team_of
from weft.errors import InputError
from weft.network import Network, full_mesh, two_tier
from weft.sparse import (
    AlphaBeta,
    Compression,
    Conversation,
    Pairs,
    alpha_beta,
    rival_costs,
    simulated,
    spardl_cost,
    team_choice,
)
from weft.sparse.costs import steps

PER_BLOCK, BLOCK = 5, 100
"""So many of so many elements are kept, in a block of one of P workers: then Table 1's k is a whole number everywhere."""


def talk(workers: int, calls: int = 1, **settings: Any) -> Conversation[Pairs]:
    """The last of several calls with numbers of which none are equal."""
    draw = np.random.default_rng(workers)
    feedbacks = team_of(Compression(density=PER_BLOCK / BLOCK, **settings), workers)
    found = None
    for _ in range(calls):
        found = summed(feedbacks, [normal(draw, BLOCK * workers) for _ in range(workers)])
    assert found is not None
    return found


@pytest.mark.parametrize(("workers", "teams"), team_cases(range(2, 18)))
def test_rounds_and_numbers_are_those_of_table_1(workers: int, teams: int) -> None:
    cost = spardl_cost(workers, PER_BLOCK * workers, teams)
    found = talk(workers, teams=teams)
    assert cost.rounds == 2 * steps(workers // teams) + steps(teams)
    for worker in range(workers):
        assert found.rounds[worker] == cost.rounds
        assert found.messages(worker) == cost.rounds, "one message a round"
        if teams & (teams - 1):
            assert cost.least <= found.received(worker) <= cost.most
        else:
            assert cost.least == cost.most == found.received(worker)


@pytest.mark.parametrize(("workers", "teams"), [(p, d) for p, d in team_cases(range(2, 13)) if d > 1])
def test_b_sag_stays_within_its_bounds_while_h_moves(workers: int, teams: int) -> None:
    cost = spardl_cost(workers, PER_BLOCK * workers, teams, "bruck")
    for calls in (1, 6, 20):
        found = talk(workers, calls, teams=teams, exchange="bruck")
        assert all(cost.least <= found.received(worker) <= cost.most for worker in range(workers))


def test_h_settles_where_the_union_has_as_many_as_wanted() -> None:
    draw = np.random.default_rng(0)
    feedbacks = team_of(Compression(density=0.05, teams=3), 6)
    common = draw.standard_normal(12_000, dtype=np.float32)
    unions = []
    for _ in range(150):
        # As gradients do, those of different workers have much in common.
        gradients = [common + 0.5 * normal(draw, 12_000) for _ in range(6)]
        unions.append(len(summed(feedbacks, gradients).results[0]))
    assert np.mean(unions[:3]) < 0.75 * 600, "at first every team sends a third"
    assert np.mean(unions[-50:]) > 0.9 * 600


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_rivals_cost_what_table_1_says_for_powers_of_two(workers: int) -> None:
    k, n = PER_BLOCK * workers, BLOCK * workers
    costs = rival_costs(workers, k, n)
    for method in ("dense", "topk-a"):
        found, cost = talk(workers, method=method), costs[method]
        assert {found.received(worker) for worker in range(workers)} == {cost.least} == {cost.most}
        assert set(found.rounds) == {cost.rounds}
    found, cost = talk(workers, method="gtopk"), costs["gtopk"]
    assert max(found.rounds) == cost.rounds == 2 * log2(workers)
    assert found.rounds[0] * 2 * k == cost.most, "the root is busy in all rounds, each with a whole selection"
    assert {delivery.elements for delivery in found.deliveries} == {2 * k}
    for method in ("topk-dsa", "ok-topk"):
        # In between two exact thresholds, and when residuals have settled.
        found, cost = talk(workers, 37, method=method), costs[method]
        numbers = [found.received(worker) for worker in range(workers)]
        assert all(found.messages(worker) <= cost.rounds for worker in range(workers))
        # On average, for blocks have not exactly equally many; Ok-Topk's counts come on top.
        assert cost.least <= np.mean(numbers) <= cost.most + (workers - 1)


@pytest.mark.parametrize("workers", [3, 5, 6, 7, 12])
def test_rivals_take_more_rounds_for_other_numbers_unless_they_gather_by_bruck(workers: int) -> None:
    whole = int(log2(workers))
    assert max(talk(workers, method="topk-a").rounds) == whole + 2
    assert set(talk(workers, method="topk-a", gather="bruck").rounds) == {steps(workers)}


@pytest.mark.parametrize("workers", [3, 5, 6, 7])
def test_gtopk_says_that_it_is_for_powers_of_two(workers: int) -> None:
    with pytest.raises(InputError, match=f"gtopk is for powers of two, not for {workers} workers: use spardl"):
        team_of(Compression("gtopk"), workers)


def test_teams_are_many_where_latency_dominates_and_few_where_bandwidth_does() -> None:
    far, slow = AlphaBeta(alpha=1e-2, beta=1e-9), AlphaBeta(alpha=1e-6, beta=1e-6)
    assert team_choice(16, 100_000, far).teams == 16
    assert team_choice(16, 100_000, slow).teams <= 2
    choice = team_choice(8, 1000, AlphaBeta(1e-3, 1e-8))
    assert choice.teams == min(choice.seconds, key=lambda d: choice.seconds[d])
    assert choice.reason.startswith(f"{choice.teams} teams: ")
    assert "others would take: 1: " in choice.reason
    assert team_choice(7, 1000, slow).seconds.keys() == {1, 7}


def test_auto_chooses_by_the_network_and_says_why() -> None:
    near, far = two_tier(2, 4, 1e9, latency=1e-6), two_tier(2, 4, 1e9, latency=10e-3)
    draw = np.random.default_rng(0)
    teams = {}
    for network in (near, far):
        feedbacks = team_of(Compression(teams="auto"), 8, network=network)
        summed(feedbacks, [normal(draw, 5000) for _ in range(8)])
        (choice,) = feedbacks[0].choices.values()
        teams[network] = choice.teams
    assert teams[far] == 8
    assert teams[near] <= teams[far]
    with pytest.raises(InputError, match="teams='auto' needs a network to choose for"):
        next(team_of(Compression(teams="auto"), 2)[0].part(np.ones(10, np.float32)))


def test_a_narrow_uplink_is_in_a_networks_beta() -> None:
    even, narrow = alpha_beta(two_tier(2, 4, 1e9, latency=1e-5)), alpha_beta(two_tier(2, 4, 1e9, 4.0, latency=1e-5))
    assert narrow.beta == pytest.approx(4 * even.beta)
    assert narrow.alpha == pytest.approx(4e-5)
    assert alpha_beta(full_mesh(1)) == AlphaBeta(0.0, 0.0)


def test_simulated_time_is_rounds_of_latency_and_bytes_at_the_links_rate() -> None:
    latency, rate = 1e-3, 1e6
    network = _star(6, rate, latency)
    found = talk(6)
    times = simulated(found, network)
    assert len(set(times.workers)) == 1
    longest = [max(d.nbytes for d in found.deliveries if d.sent_in == turn) for turn in range(6)]
    assert times.seconds == pytest.approx(6 * 2 * latency + sum(longest) / rate, rel=1e-6)
    late = simulated(found, network, wake_seconds=2e-3, efficiency=0.5)
    assert late.seconds == pytest.approx(6 * 4e-3 + 2 * sum(longest) / rate, rel=1e-6)
    handled = simulated(found, network, message_seconds=0.1)
    assert handled.seconds == pytest.approx(6 * (2 * latency + 0.1), rel=1e-6), "every message is small here"


def test_a_worker_waits_for_what_it_expects_and_for_nothing_else() -> None:
    found = talk(4, method="gtopk")  # a tree: the last worker to know is two levels down
    times = simulated(found, _star(4, 1e12, 1e-3))
    assert times.workers == pytest.approx((4e-3, 6e-3, 6e-3, 8e-3), rel=1e-3)
    assert simulated(talk(1), full_mesh(1)).seconds == 0
    with pytest.raises(InputError, match="4 workers talk"):
        simulated(found, full_mesh(3))


def test_messages_of_one_round_share_the_links() -> None:
    found = talk(4, 2, method="topk-dsa")
    sent = sum(d.nbytes for d in found.deliveries if d.source == 0)
    assert simulated(found, _star(4, 1e6, 0.0)).seconds >= sent / 1e6


def _star(workers: int, bandwidth: float, latency: float) -> Network:
    """One switch: every route is two links."""
    return two_tier(1, workers, bandwidth, latency=latency)
