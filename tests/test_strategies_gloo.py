"""Strategies on gloo, every rank a process: the parameters of the training in memory, lost ranks, bounds, resumption."""

from __future__ import annotations

import pytest

from processes import check_ranks
from ranks import slow

SCRIPT = "strategy_rank.py"


def test_every_strategy_computes_what_it_does_in_memory() -> None:
    cases = ("every_strategy_equals_memory", "halved_uplinks_equal_memory", "buffers_and_momentum_stay_own")
    check_ranks(SCRIPT, 4, *cases)


@pytest.mark.slow
def test_a_rack_of_one_trains_like_in_memory() -> None:
    check_ranks(SCRIPT, 3, "every_strategy_equals_memory")


def test_resuming_goes_on_to_the_same_bits() -> None:
    check_ranks(SCRIPT, 3, "resuming_gives_the_same_bits")


def test_mistakes_are_named_and_gradients_accumulate() -> None:
    check_ranks(SCRIPT, 2, "mistakes_are_named", "accumulated_passes_are_one_step")


def test_a_slow_worker_divides_the_pattern_and_it_returns() -> None:
    check_ranks(SCRIPT, 4, "contention_is_followed_and_forgotten")


@pytest.mark.parametrize("strategy", [slow("bsp"), "ds-sync", slow("gossip"), slow("local-sgd"), slow("ssp")])
def test_a_lost_rank_is_named_by_all(strategy: str) -> None:
    check_ranks(SCRIPT, 4, "a_lost_rank_is_named_by_all", killed=True, STRATEGY=strategy)


def test_servers_apply_every_gradient_and_hold_the_bound() -> None:
    check_ranks(SCRIPT, 3, "servers_apply_everything", "staleness_is_bounded")


@pytest.mark.parametrize("strategy", ["asp", slow("ssp")])
def test_serving_goes_on_without_a_worker_that_is_no_server(strategy: str) -> None:
    check_ranks(SCRIPT, 3, "serving_goes_on_without_a_worker", killed=True, STRATEGY=strategy)


@pytest.mark.parametrize(("strategy", "servers"), [("asp", "1"), ("ssp", "3")])
def test_a_worker_that_is_stopped_is_named_by_all(strategy: str, servers: str) -> None:
    variables = {"STRATEGY": strategy, "SERVERS": servers}
    check_ranks(SCRIPT, 3, "a_stopped_worker_is_named_by_all", killed=True, seconds=60, **variables)


def test_a_worker_that_is_late_is_waited_for() -> None:
    check_ranks(SCRIPT, 3, "a_late_worker_is_waited_for", seconds=60)
