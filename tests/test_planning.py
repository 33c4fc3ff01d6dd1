from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from strategies import networks
from test_packing import NAMED
from weft import InputError, Network
from weft.collectives import ring
from weft.network import full_mesh, two_tier
from weft.planning import Costs, shortlist
from weft.planning.candidates import Goal, Race


def slower(network: Network, latency: float) -> Network:
    return replace(network, links=tuple(replace(link, latency=latency) for link in network.links))


@pytest.mark.parametrize("network", NAMED.values(), ids=NAMED.keys())
def test_plans_of_well_known_networks_are_within_ten_percent_of_the_bound(network: Network) -> None:
    late = slower(network, 20e-6)
    plan = weft.plan(late, 100_000_000)
    assert plan.bound <= plan.seconds <= 1.1 * plan.bound
    weft.verify(plan.schedule)
    assert weft.simulate(plan.schedule, late, 100_000_000).seconds == pytest.approx(plan.seconds)


def test_why_names_the_choice_the_bound_the_bottleneck_and_the_runner_up() -> None:
    plan = weft.plan(two_tier(2, 4, oversubscription=4, latency=5e-6), 100_000_000)
    for part in (plan.collective, "of the bound", "held up by", "runner-up"):
        assert part in plan.why
    assert plan.others


def test_where_nothing_else_can_be_as_fast_the_runner_up_is_named_without_simulating_it() -> None:
    plan = weft.plan(full_mesh(8), 100_000_000)
    assert plan.seconds == pytest.approx(plan.bound)
    assert not plan.others
    assert "whose busiest link alone takes" in plan.why


def test_a_plan_has_no_more_segments_than_the_bound_asks_for() -> None:
    plan = weft.plan(NAMED["DGX-1"], 100_000_000)
    assert plan.bound <= 0.995 * plan.seconds
    assert plan.seconds <= plan.bound / 0.99


@pytest.mark.parametrize(("thorough", "numbers"), [(False, [1]), (True, [1, 2, 4])])
def test_what_is_fast_enough_is_tried_in_more_segments_only_for_a_list_of_several(
    thorough: bool, numbers: list[int]
) -> None:
    network = two_tier(2, 2)
    race = Race(network, 1e6, math.inf, Costs(), Goal(1, math.inf, thorough))
    race.enter("ring", ring(network), weft.Schedule.sliced)
    assert [candidate.segments for candidate in race.close] == numbers
    assert race.reached


def test_a_shortlist_has_different_plans_that_are_about_equally_fast_and_begins_with_the_best() -> None:
    network = two_tier(2, 4, oversubscription=4, latency=5e-6)
    found = shortlist(network, 25_000_000, 4, seconds=3.0)
    assert 2 <= len(found) <= 4
    assert len({plan.digest for plan in found}) == len(found)
    assert [plan.seconds for plan in found] == sorted(plan.seconds for plan in found)
    assert found[-1].seconds <= 1.15 * found[0].seconds
    for plan in found:
        assert plan.bound <= plan.seconds
        assert weft.simulate(plan.schedule, network, 25_000_000).seconds == pytest.approx(plan.seconds)


def test_spare_plans_are_of_other_kinds_and_come_after_the_shortlist() -> None:
    network = two_tier(2, 4, latency=5e-6)
    few, more = (shortlist(network, 25_000_000, 2, seconds=3.0, spare=spare) for spare in (0, 3))
    assert [plan.digest for plan in more[: len(few)]] == [plan.digest for plan in few]
    spares = more[len(few) :]
    assert 2 <= len(spares) <= 3
    kinds = [plan.collective for plan in spares]
    assert len({*kinds, *(plan.collective for plan in few)}) == len(kinds) + len({plan.collective for plan in few})
    assert len({plan.digest for plan in more}) == len(more)
    assert [plan.seconds for plan in spares] == sorted(plan.seconds for plan in spares)
    for plan in spares:
        weft.verify(plan.schedule)
        assert few[0].seconds <= plan.seconds <= 1.5 * few[0].seconds


def test_efficiency_makes_predictions_longer_and_leaves_the_bound_alone() -> None:
    network = two_tier(2, 4)
    ideal, real = (weft.plan(network, 25_000_000, costs=Costs(efficiency=part)) for part in (1.0, 0.9))
    assert real.seconds == pytest.approx(ideal.seconds / 0.9)
    assert real.bound == ideal.bound
    with pytest.raises(InputError, match="efficiency"):
        Costs(efficiency=1.2)


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(network=networks, nbytes=st.sampled_from([1, 1000, 10**6, 10**8]))
def test_any_network_gets_a_proved_plan_that_no_collective_beats(network: Network, nbytes: int) -> None:
    plan = weft.plan(network, nbytes, seconds=2.0)
    weft.verify(plan.schedule)
    assert plan.seconds >= plan.bound * (1 - 1e-9)
    for name in ("ring", "rat", "parameter-server"):
        schedule = weft.collectives.COLLECTIVES[name](network)
        assert (
            plan.seconds <= weft.simulate(schedule, network, nbytes).seconds * (1 + 1e-9)
            or plan.seconds <= plan.bound / 0.99
        )


def test_a_plan_loads_back_to_the_same_digest(tmp_path: Path) -> None:
    plan = weft.plan(NAMED["DGX-1"], 10_000_000)
    plan.save(tmp_path / "plan.json")
    again = weft.Plan.load(tmp_path / "plan.json")
    assert again.digest == plan.digest
    assert again.network == plan.network
    assert (again.seconds, again.bound, again.why, again.others) == (plan.seconds, plan.bound, plan.why, plan.others)
    assert again.whole == plan.whole


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d | {"weft_plan": 9}, "version 9"),
        (lambda d: d | {"digest": "0" * 64}, "says its digest is 000"),
        (lambda d: d | {"schedule": d["schedule"].rsplit("\n", 2)[0] + "\n"}, "digest"),
        (lambda d: {k: v for k, v in d.items() if k != "why"}, "not a plan that Weft wrote"),
        (lambda d: d | {"network": "workers: 3"}, "workers is a list"),
        (lambda d: [d], "not a plan"),
    ],
)
def test_a_damaged_plan_is_refused(tmp_path: Path, change, problem: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "plan.json"
    weft.plan(two_tier(2, 2), 1_000_000).save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(weft.WeftError, match=problem):
        weft.Plan.load(path)


def test_trivial_and_impossible_plans() -> None:
    alone = weft.plan(two_tier(2, 2).with_active(["b1"]), 1_000_000)
    assert (alone.seconds, len(alone.schedule)) == (0.0, 0)
    for nbytes in (0, -1):
        with pytest.raises(InputError, match="bytes is not possible"):
            weft.plan(two_tier(2, 2), nbytes)
    with pytest.raises(InputError, match="planning in 0 s"):
        weft.plan(two_tier(2, 2), 10, seconds=0)


def test_whoever_measures_short_plans_is_offered_a_ring_too() -> None:
    fast = full_mesh(4, bandwidth=20e9 / 8)
    assert [plan.collective for plan in shortlist(fast, 25e6, 4)][-1] == "ring-ordered"
    assert "ring-ordered" not in {plan.collective for plan in shortlist(fast, 25e6, 2)}
    assert "ring-ordered" not in {plan.collective for plan in shortlist(fast, 25e8, 4)}
