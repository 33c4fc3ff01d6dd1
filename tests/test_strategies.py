"""Strategies: what they ask for around a step, who may go on, and that patterns follow what is slow."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.groups import EVERY, Everybody, Meeting, Part, Round, Speeds, divide_and_shuffle
from weft.network import Network, full_mesh, two_tier
from weft.simulation import Background, Conditions
from weft.strategies import (
    STRATEGIES,
    Arrival,
    Averaging,
    Options,
    Serving,
    StalenessClock,
    StepClock,
    arrivals,
    ensemble_weight,
    meetings_of,
    strategy_of,
    synchronized_update,
)

RATE = 1e8
NETWORK = two_tier(2, 4, RATE, uplink=RATE)


class Diary:
    """A ground that writes down what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def average_gradients(self, which: Round) -> None:
        self.calls.append(("gradients", which))

    def update(self) -> None:
        self.calls.append("update")

    def average_parameters(self, which: Round, part: Part) -> None:
        self.calls.append(("parameters", which, part))

    def remember(self, weight: float) -> None:
        self.calls.append(("remember", weight))


def made(name: str, options: Options | None = None, network: Network = NETWORK) -> Averaging:
    strategy = strategy_of(name, network, options)
    assert isinstance(strategy, Averaging)
    return strategy


def test_bsp_averages_gradients_before_the_update_and_the_others_parameters_after_it() -> None:
    diary = Diary()
    synchronized_update(made("bsp"), 5, diary)
    assert diary.calls == [("gradients", Round((tuple(range(8)),))), "update"]
    for name in ("gossip", "local_sgd"):
        diary = Diary()
        exchange = synchronized_update(made(name), 7, diary)
        assert diary.calls == ["update", ("parameters", exchange.round, (0, 1))]
    diary = Diary()
    synchronized_update(made("gossip", Options(parts=5)), 7, diary)
    assert diary.calls == ["update", ("parameters", made("gossip").exchange(1).round, (2, 5))]
    diary = Diary()
    exchange = synchronized_update(made("ds_sync"), 1, diary)
    assert exchange.round == divide_and_shuffle(NETWORK).round(1)
    assert diary.calls == ["update", ("parameters", exchange.round, (0, 1)), ("remember", 0.5)]


def test_only_bsp_is_exact() -> None:
    assert [name for name in STRATEGIES if strategy_of(name, NETWORK).exact] == ["bsp"]
    assert not Averaging("rare", "gradients", Everybody((0, 1), 2)).exact


def test_names_have_hyphens_or_underscores_and_others_are_refused() -> None:
    assert strategy_of("local_sgd", NETWORK, Options(every=3)).name == "local-sgd"
    with pytest.raises(InputError, match="no strategy 'ds-snyc'"):
        strategy_of("ds-snyc", NETWORK)
    with pytest.raises(InputError, match="less than 1"):
        made("bsp", Options(ensemble=1.0))
    assert made("ds-sync", Options(ensemble=0.0)).ensemble is None
    with pytest.raises(InputError, match="staleness bound of -1"):
        strategy_of("ssp", NETWORK, Options(staleness=-1))


@given(st.floats(0, 0.999), st.integers(1, 60))
def test_an_ensemble_is_a_mean_whose_weights_add_up_to_one(factor: float, steps: int) -> None:
    weights: list[float] = []
    for step in range(steps):
        weight = ensemble_weight(factor, step)
        weights = [w * (1 - weight) for w in weights] + [weight]
    assert sum(weights) == pytest.approx(1)
    assert weights[0] <= weights[-1] + 1e-12, "the random start counts no more than anything else"


some_cycles = st.dictionaries(st.integers(0, 9), st.floats(0.01, 10), min_size=1, max_size=6)


@given(some_cycles, st.integers(0, 4), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_no_worker_is_ever_further_ahead_than_the_bound(cycles: dict[int, float], bound: int, steps: int) -> None:
    begun = dict.fromkeys(cycles, 0)
    finished = dict.fromkeys(cycles, 0)
    before = 0.0
    for came in arrivals(cycles, bound, steps):
        assert came.seconds >= before
        before = came.seconds
        assert came.step == finished[came.worker]
        finished[came.worker] += 1
        assert came.worker not in came.begins or finished[came.worker] - min(finished.values()) <= bound
        for worker in came.begins:
            begun[worker] += 1
            assert finished[worker] - min(finished.values()) <= bound, "it began too early"
        assert max(finished.values()) - min(finished.values()) <= bound + 1
        idle = [worker for worker in cycles if begun[worker] < finished[worker]]
        assert all(finished[worker] - min(finished.values()) > bound for worker in idle), "it waits for nothing"
    assert min(finished.values()) == steps


@given(some_cycles, st.integers(1, 5))
@settings(deadline=None)
def test_without_a_bound_everybody_keeps_its_own_pace(cycles: dict[int, float], steps: int) -> None:
    for came in arrivals(cycles, None, steps):
        assert came.seconds == pytest.approx((came.step + 1) * cycles[came.worker])
        assert came.waited == 0
        assert came.begins == (came.worker,)


def test_a_slow_worker_holds_up_ssp_and_not_asp() -> None:
    cycles = {0: 1.0, 1: 1.0, 2: 4.0}
    bounded, free = list(arrivals(cycles, 2, 10)), list(arrivals(cycles, None, 10))

    def count(found: list[Arrival], worker: int) -> int:
        return sum(came.worker == worker for came in found)

    assert count(free, 0) == 40
    assert count(bounded, 0) <= 13, "three steps ahead of ten"
    assert any(came.waited > 2 for came in bounded)
    assert max(came.staleness for came in free if came.worker == 2) >= 7, "eight updates of the others, more or less"


def test_a_bound_of_nothing_begins_every_step_together() -> None:
    for came in arrivals({0: 1.0, 1: 2.0, 2: 3.0}, 0, 4):
        assert came.begins == ((0, 1, 2) if came.worker == 2 else ())
        assert came.staleness == came.worker


def test_a_clock_that_is_cheated_says_so() -> None:
    clock = StalenessClock((0, 1), 1)
    clock.finish(0)
    clock.finish(0)
    assert not clock.may_begin(0)
    with pytest.raises(InputError, match="worker 0 has finished step 2 although the slowest has 0"):
        clock.finish(0)
    with pytest.raises(InputError, match="a step of 0"):
        next(arrivals({0: 0.0}, None, 1))


def test_a_group_took_as_long_as_the_last_of_its_members() -> None:
    pattern = Everybody((0, 1, 2))
    found = meetings_of(pattern, 3, [{0: 1.0, 1: 3.0, 2: 2.0}, {}], lambda which: dict.fromkeys(which.groups, 1.5))
    assert found == [Meeting((0, 1, 2), 3.0, 1.5)], "a step in which nothing was measured tells nothing"


def scenario(step: int) -> Conditions | None:
    """Another job between worker a4's machine and one in the other rack, for a while."""
    flows = Conditions([Background("a4", "b4", flows=2), Background("b4", "a4", flows=2)])
    return flows if EVERY <= step < 5 * EVERY else None


def test_the_pattern_divides_when_a_background_flow_begins_and_returns_when_it_ends() -> None:
    whole = two_tier(2, 5, RATE, uplink=2 * RATE, latency=1e-5)
    network = whole.with_active([*whole.workers[:5], *whole.workers[5:8]])
    strategy = original = made("ds-sync", network=network)
    clock = StepClock(network, 4e6, 0.01, conditions=scenario)
    slow = []
    for step in range(EVERY, 10 * EVERY, EVERY):
        strategy = strategy.adjusted(clock.meetings(strategy, step - EVERY, step))
        assert strategy.contention is not None
        slow.append(strategy.contention.slow_workers)
        if step == 3 * EVERY:
            divided = clock.communication(strategy.exchange(0).round, 3 * EVERY).seconds
            undivided = clock.communication(original.exchange(0).round, 3 * EVERY).seconds
            assert divided < 0.8 * undivided
    assert slow[0] == (), "nothing is wrong yet"
    assert slow[1:5] == [(4,)] * 4, "noticed after the first hundred steps of it"
    assert slow[-1] == ()
    assert strategy.pattern == original.pattern


def test_a_strategy_without_contention_follows_nothing() -> None:
    strategy = made("gossip")
    assert strategy.adjusted([Meeting((0, 1), 9.0, 1.0)]) is strategy
    assert strategy.following(Speeds({0: 0.1}, {})) is strategy
    steady = made("ds-sync")
    assert steady.following(Speeds(dict.fromkeys(range(8), 1.0), {})) is steady


def test_the_clock_adds_computing_and_communication_as_they_are_in_the_step() -> None:
    clock = StepClock(NETWORK, 1e6, 0.2, speeds=(1, 1, 1, 1, 1, 1, 1, 0.5), conditions=scenario_of_uplink)
    assert clock.longest_compute == pytest.approx(0.4)
    everybody = made("bsp").exchange(0).round
    before, during = clock.communication(everybody, 0), clock.communication(everybody, 1)
    assert during.seconds > 1.5 * before.seconds
    assert before.nbytes == pytest.approx(14e6)
    cycles = clock.cycles(Serving("asp", NETWORK.active))
    assert cycles[7] > cycles[6] + 0.1
    with pytest.raises(InputError, match="2 speeds are given, and 3 workers"):
        StepClock(full_mesh(3), 1.0, 0.1, (1.0, 1.0))


def scenario_of_uplink(step: int) -> Conditions | None:
    return Conditions([Background("tor-a", "tor-b"), Background("tor-b", "tor-a")]) if step else None


# Servers


def test_a_server_goes_on_as_it_was_saved() -> None:
    from weft.torch.strategies.serving import Part

    def pushed(part: Part, seed: int) -> torch.Tensor:
        return part.push(0, torch.randn(6, generator=torch.Generator().manual_seed(seed)), 0.1)

    def fresh() -> Part:
        parameter = torch.nn.Parameter(torch.ones(6))
        return Part(torch.ones(6), torch.optim.SGD([parameter], 0.1, momentum=0.9), [0], None)

    whole, before, after = fresh(), fresh(), fresh()
    for seed in (1, 2):
        pushed(whole, seed)
        pushed(before, seed)
    after.restore(before.state())
    assert torch.equal(pushed(after, 3), pushed(whole, 3)), "momentum goes on too"


def test_who_pauses_holds_nobody_up_and_all_go_on_together() -> None:
    from threading import Thread

    from weft.torch.strategies.serving import Part

    parameter = torch.nn.Parameter(torch.ones(2))
    part = Part(torch.ones(2), torch.optim.SGD([parameter], 0.1), [0, 1], 0)
    heard: dict[int, int] = {}
    threads = [Thread(target=lambda: heard.setdefault(0, part.pause(0, 7)[0]))]
    threads[0].start()
    for _ in range(3):
        part.push(1, torch.ones(2), 0.1)  # with a bound of 0 it would wait for worker 0
    assert not heard
    assert part.pause(1, 3)[0] == 7
    threads[0].join(5)
    assert heard == {0: 7}
    assert part.clock.finished == {0: 0, 1: 0}
