"""Divide-and-shuffle and gossip: who averages with whom, and that all agree in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import networks
from weft.errors import InputError, WeftError
from weft.groups import (
    WHOLE,
    DivideAndShuffle,
    Everybody,
    ExponentialGraph,
    Part,
    Pattern,
    Rack,
    RandomMatching,
    Round,
    check_consensus,
    check_uplinks,
    consensus,
    divide_and_shuffle,
    in_parts,
    mixing_matrix,
    never_meeting,
    pattern_table,
    racks_of,
    with_slow,
)
from weft.network import Network, fat_tree, full_mesh, two_tier

ROUNDS = 300


def racks(*sizes: int) -> tuple[Rack, ...]:
    starts = np.cumsum([0, *sizes]).tolist()
    return tuple(Rack(chr(97 + i), tuple(range(starts[i], starts[i] + size))) for i, size in enumerate(sizes))


def groups(pattern: Pattern, step: int) -> set[tuple[int, ...]]:
    return set(pattern.round(step).groups)


def between(pattern: DivideAndShuffle, step: int) -> list[tuple[int, ...]]:
    homes = [set(rack.ranks) for rack in pattern.racks]
    return [group for group in pattern.round(step).groups if not any(set(group) <= home for home in homes)]


def test_figure_4_four_racks_take_turns_to_be_represented() -> None:
    pattern = divide_and_shuffle(racks(3, 3, 3, 3))
    assert pattern.period == 3
    assert groups(pattern, 0) == {(0, 3, 6, 9), (1, 2), (4, 5), (7, 8), (10, 11)}
    assert groups(pattern, 1) == {(1, 4, 7, 10), (0, 2), (3, 5), (6, 8), (9, 11)}
    assert groups(pattern, 2) == {(2, 5, 8, 11), (0, 1), (3, 4), (6, 7), (9, 10)}
    assert groups(pattern, 3) == groups(pattern, 0)


def test_figure_5_a_slow_uplink_meets_one_other_rack_at_a_time() -> None:
    pattern = divide_and_shuffle(racks(3, 3, 3, 3), slow_uplinks=[0])
    assert between(pattern, 0) == [(0, 3), (6, 9)]
    assert between(pattern, 1) == [(1, 7), (4, 10)]
    assert between(pattern, 2) == [(2, 11), (5, 8)]
    for step in range(pattern.period):
        small = next(group for group in between(pattern, step) if set(group) & {0, 1, 2})
        assert len(small) == 2
    partners = [next(g for g in between(pattern, step) if g[0] < 3)[1] // 3 for step in range(3)]
    assert partners == [1, 2, 3]


def test_figure_6_a_slow_worker_stays_at_home_in_a_group_of_two() -> None:
    # Rack A has the workers A1 to A5, of which A5 shares its link; A's uplink is shared, too.
    pattern = divide_and_shuffle(racks(5, 4, 4, 4), slow_workers=[4], slow_uplinks=[0])
    assert groups(pattern, 0) == {(0, 5), (1, 4), (2, 3), (9, 13), (6, 7, 8), (10, 11, 12), (14, 15, 16)}
    assert groups(pattern, 1) == {(1, 10), (2, 4), (0, 3), (6, 14), (5, 7, 8), (9, 11, 12), (13, 15, 16)}
    met = set()
    for step in range(pattern.period):
        group = pattern.round(step).group_of(4)
        assert len(group) == 2
        assert set(group) <= {0, 1, 2, 3, 4}
        met |= set(group)
    assert met == {0, 1, 2, 3, 4}, "the large group exchanges workers with the small one"


def test_the_papers_first_scenario_divides_rack_0_only() -> None:
    plain = divide_and_shuffle(racks(5, 3))
    adjusted = divide_and_shuffle(racks(5, 3), slow_workers=[4], slow_uplinks=[0, 1])
    assert (plain.period, adjusted.period) == (15, 12)
    assert groups(adjusted, 0) == {(0, 5), (1, 4), (2, 3), (6, 7)}
    for step in range(adjusted.period):
        assert len(between(adjusted, step)) == 1
        assert len(adjusted.round(step).group_of(4)) == 2


def test_with_two_racks_a_slow_uplink_changes_nothing() -> None:
    plain, adjusted = divide_and_shuffle(racks(4, 4)), divide_and_shuffle(racks(4, 4), slow_uplinks=[0])
    for step in range(8):
        assert plain.round(step) == adjusted.round(step)


def test_across_a_halved_uplink_one_half_follows_the_other_while_all_others_average_whole_tensors() -> None:
    pattern = divide_and_shuffle(racks(4, 4), slow_uplinks=[0, 1], halved=[0, 1])
    assert pattern.period == 8
    for step in range(8):
        turn = step // 2
        now = pattern.round(step)
        assert between(pattern, step) == [(turn, 4 + turn)] == list(now.parted)
        assert now.part_of((turn, 4 + turn)) == Part(step % 2, 2)
        assert now.part_of(now.group_of((turn + 1) % 4)) == WHOLE
    assert "by halves" in pattern_table(pattern)


def test_only_slow_uplinks_are_halved() -> None:
    pattern = divide_and_shuffle(racks(3, 3, 3, 3), slow_uplinks=[0], halved=[0, 1])
    for step in range(pattern.period):
        for group in between(pattern, step):
            assert (group in pattern.round(step).parted) == (group[0] < 3)


def test_elements_of_both_halves_agree_but_not_before_their_turn() -> None:
    pattern = divide_and_shuffle(racks(4, 4), slow_uplinks=[0, 1], halved=[0, 1])
    place = {rank: rank for rank in range(8)}
    first, second = (pattern.round(0).mixed(np.eye(8), place, number) for number in (0, 1))
    assert first[0][4] == 0.5
    assert second[0][4] == 0
    assert second[1][2] == pytest.approx(1 / 3), "at home all is averaged"
    assert consensus(divide_and_shuffle(racks(4, 4))).rate < consensus(pattern).rate < 1


def test_a_round_by_parts_is_the_round() -> None:
    now = divide_and_shuffle(racks(4, 4), slow_uplinks=[0, 1], halved=[0, 1]).round(3)
    (whole, everything), (crossing, half) = now.by_part()
    assert (everything, half) == (WHOLE, Part(1, 2))
    assert set(whole.groups) == {(0, 2, 3), (4, 6, 7), (1,), (5,)}
    assert set(crossing.groups) == {(1, 5), *((rank,) for rank in (0, 2, 3, 4, 6, 7))}


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
@settings(max_examples=60, deadline=None)
def test_patterns_with_halved_uplinks_divide_contract_and_repeat(sizes: list[int], data: st.DataObject) -> None:
    slow = data.draw(st.sets(st.integers(0, len(sizes) - 1)))
    halved = data.draw(st.sets(st.sampled_from(sorted(slow)))) if slow else set()
    lazy = data.draw(st.sets(st.integers(0, sum(sizes) - 1), max_size=2))
    pattern = divide_and_shuffle(racks(*sizes), sorted(lazy), sorted(slow), sorted(halved))  # checks the first two
    for step in range(min(pattern.period, ROUNDS)):
        assert pattern.round(step) == pattern.round(step + pattern.period)


def test_a_single_rack_averages_as_one_group_in_every_step() -> None:
    pattern = divide_and_shuffle(racks(5))
    assert pattern.period == 1
    assert groups(pattern, 7) == {(0, 1, 2, 3, 4)}
    assert consensus(pattern).contraction == 0
    divided = divide_and_shuffle(racks(5), slow_workers=[0])
    assert groups(divided, 0) == {(0, 2), (1, 3, 4)}
    assert divided.period == 4


def test_racks_of_one_represent_themselves() -> None:
    pattern = divide_and_shuffle(racks(1, 1, 1))
    assert groups(pattern, 0) == {(0, 1, 2)}
    mixed = divide_and_shuffle(racks(1, 3))
    assert [groups(mixed, step) for step in range(2)] == [{(0, 1), (2, 3)}, {(0, 2), (1, 3)}]


def test_two_racks_of_two_rest_because_their_turns_never_mix() -> None:
    plain = DivideAndShuffle(racks(2, 2))
    assert never_meeting(plain) == [(0, 2), (1, 3)]
    with pytest.raises(InputError, match="0, 2 and 1, 3 never hear of each other"):
        check_consensus(plain)
    pattern = divide_and_shuffle(racks(2, 2))
    assert [groups(pattern, step) for step in range(3)] == [
        {(0, 2), (1,), (3,)},
        {(1, 3), (0,), (2,)},
        {(0, 1), (2, 3)},
    ]
    assert consensus(pattern).contraction < 1


def test_racks_of_two_beside_a_larger_one_need_no_rest() -> None:
    pattern = divide_and_shuffle(racks(2, 2, 3))
    assert not pattern.rests
    assert groups(pattern, 0) == {(0, 2, 4), (1,), (3,), (5, 6)}


def test_more_slow_than_regular_uplinks_pair_up_among_themselves() -> None:
    pattern = divide_and_shuffle(racks(3, 3, 3, 3, 3), slow_uplinks=[0, 1, 2, 3])
    assert between(pattern, 0) == [(0, 12), (3, 6)], "the fourth slow one stays at home"
    assert (9, 10, 11) in groups(pattern, 0)
    for step in range(pattern.period):
        assert all(len(group) == 2 for group in between(pattern, step))


def test_a_rack_of_slow_workers_alone_counts_as_one_with_a_slow_uplink() -> None:
    pattern = divide_and_shuffle(racks(2, 3, 3, 3), slow_workers=[0, 1])
    assert all(len(pattern.round(step).group_of(step % 2)) == 2 for step in range(pattern.period))
    assert between(pattern, 0) == [(0, 2), (5, 8)]


def test_slow_workers_alone_in_a_rack_are_in_pairs_at_home() -> None:
    pattern = divide_and_shuffle(racks(5, 3), slow_workers=[0, 1, 2, 3, 4])
    met = set()
    for step in range(pattern.period):
        home = [group for group in pattern.round(step).groups if set(group) <= {0, 1, 2, 3, 4}]
        assert [len(group) for group in home] == [2, 2]
        met |= set(home)
    assert len(met) == 10, "everybody meets everybody"


def test_the_only_regular_worker_of_a_rack_is_away_and_at_home_by_turns() -> None:
    pattern = divide_and_shuffle(racks(2, 3), slow_workers=[1])
    assert [sorted(pattern.round(step).group_of(0)) for step in range(3)] == [[0, 2], [0, 1], [0, 4]]
    assert groups(pattern, 1) == {(0, 1), (2, 3, 4)}, "nobody to meet: the other rack stays together"


some_racks = st.lists(st.integers(1, 6), min_size=1, max_size=6).map(lambda sizes: racks(*sizes))


@st.composite
def adjusted(draw: st.DrawFn) -> DivideAndShuffle:
    found = draw(some_racks)
    everybody = [rank for rack in found for rank in rack.ranks]
    slow = draw(st.sets(st.sampled_from(everybody)) if draw(st.booleans()) else st.just(set()))
    uplinks = draw(st.sets(st.integers(0, len(found) - 1)))
    return divide_and_shuffle(found, sorted(slow), sorted(uplinks))


def check_rules(pattern: DivideAndShuffle, steps: int) -> None:
    home = {rank: number for number, rack in enumerate(pattern.racks) for rank in rack.ranks}
    for step in range(steps):
        found = pattern.round(step).groups
        assert sorted(rank for group in found for rank in group) == list(pattern.ranks)
        crossing = [group for group in found if len({home[rank] for rank in group}) > 1]
        connections = [home[rank] for group in crossing for rank in group]
        assert len(connections) == len(set(connections)), "an uplink has more than one connection"
        for group in found:
            if any(pattern.racks[home[rank]].held_up for rank in group) and group in crossing:
                assert len(group) == 2 or len(pattern.racks) == 1
            for rank in group:
                if pattern.racks[home[rank]].all_slow:
                    assert len(group) <= 2
                if rank in pattern.racks[home[rank]].kept_home:
                    assert len(group) <= 2
                    assert group not in crossing


@given(adjusted())
@settings(max_examples=150, deadline=None)
def test_any_pattern_keeps_its_rules_and_reaches_consensus(pattern: DivideAndShuffle) -> None:
    check_rules(pattern, min(pattern.period, ROUNDS))
    assert never_meeting(pattern) == []
    assert consensus(pattern).contraction < 1


@given(adjusted(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_a_pattern_repeats_after_its_period(pattern: DivideAndShuffle, step: int) -> None:
    assert pattern.round(step) == pattern.round(step + pattern.period)


@given(some_racks)
@settings(max_examples=60, deadline=None)
def test_without_slow_ones_the_period_is_that_of_the_racks_sizes(found: tuple[Rack, ...]) -> None:
    pattern = divide_and_shuffle(found)
    if len(found) > 1 and not pattern.rests:
        assert pattern.period == lcm(*(len(rack.ranks) for rack in found))


@given(networks)
@settings(max_examples=80, deadline=None)
def test_any_network_has_a_pattern_of_its_active_workers(network: Network) -> None:
    pattern = divide_and_shuffle(network)
    assert pattern.ranks == network.active
    check_rules(pattern, min(pattern.period, 40))


def test_racks_are_the_innermost_regions_and_lone_workers_stand_alone() -> None:
    assert [rack.name for rack in racks_of(two_tier(2, 3))] == ["rack a", "rack b"]
    assert len(racks_of(fat_tree(4))) == 8
    assert [rack.ranks for rack in racks_of(full_mesh(3))] == [(0, 1, 2)]
    smaller = two_tier(2, 3).with_active(["a0", "a1", "b0"])
    assert [rack.ranks for rack in racks_of(smaller)] == [(0, 1), (3,)]


def test_the_product_of_a_period_is_what_the_errata_say() -> None:
    pattern = divide_and_shuffle(racks(4, 4))
    product = np.eye(8)
    for step in range(pattern.period):
        product = mixing_matrix(pattern, step) @ product
    assert not np.allclose(product, product.T), "it is not symmetric, so the norm is taken"
    np.testing.assert_allclose(product.sum(axis=0), 1)
    np.testing.assert_allclose(product.sum(axis=1), 1)
    found = consensus(pattern)
    assert found.contraction == pytest.approx(np.linalg.norm(product - 1 / 8, 2))
    assert 0.1 < found.rate < 0.9


@given(adjusted(), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_disagreement_shrinks_as_promised(pattern: DivideAndShuffle, seed: int) -> None:
    place = {rank: row for row, rank in enumerate(pattern.ranks)}
    values = np.random.default_rng(seed).normal(size=(len(place), 3))
    found = consensus(pattern)
    after = values
    for step in range(found.rounds):
        after = pattern.round(step).mixed(after, place)
    np.testing.assert_allclose(after.mean(axis=0), values.mean(axis=0), atol=1e-9)
    before = np.linalg.norm(values - values.mean(axis=0), axis=0)
    left = np.linalg.norm(after - values.mean(axis=0), axis=0)
    assert (left <= found.contraction * before + 1e-9).all()


@given(adjusted(), st.integers(1, 7), st.integers(1, 20), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_in_parts_every_element_goes_through_all_rounds(
    pattern: DivideAndShuffle, parts: int, elements: int, seed: int
) -> None:
    """One part a step: after so many times as many steps each element is where whole rounds would have brought it."""
    place = {rank: row for row, rank in enumerate(pattern.ranks)}
    values = np.random.default_rng(seed).normal(size=(len(place), elements))
    sparse, rounds = in_parts(pattern, parts), min(pattern.period, 12)
    assert (sparse.period, sparse.ranks) == (pattern.period * parts, pattern.ranks)
    wanted, found = values, values.copy()
    for step in range(rounds):
        wanted = pattern.round(step).mixed(wanted, place)
    for step in range(rounds * parts):
        where = Part(step % parts, parts).of(elements)
        found[:, where] = sparse.round(step).mixed(found[:, where], place)
    np.testing.assert_allclose(found, wanted)
    whole, slower = consensus(pattern), consensus(sparse)
    assert (slower.rounds, slower.contraction) == (whole.rounds * parts, whole.contraction)


def test_parts_are_counted_from_one() -> None:
    with pytest.raises(InputError, match="0 parts are not possible"):
        in_parts(Everybody((0, 1)), 0)


@dataclass(frozen=True)
class Fixed:
    """Any rounds, for patterns that are wrong."""

    ranks: tuple[int, ...]
    rounds: Sequence[tuple[tuple[int, ...], ...]]
    name: str = "fixed"

    @property
    def period(self) -> int:
        return len(self.rounds)

    def round(self, step: int) -> Round:
        return Round(self.rounds[step % self.period])


def test_a_pattern_that_does_not_mix_or_divide_is_refused() -> None:
    with pytest.raises(WeftError, match="does not reach consensus"):
        check_consensus(Fixed((0, 1, 2, 3), [((0, 1), (2, 3))]))
    with pytest.raises(WeftError, match=r"in step 1 .* \[1\] are not in exactly one group"):
        check_consensus(Fixed((0, 1, 2), [((0, 1, 2),), ((0,), (2,))]))
    with pytest.raises(WeftError, match=r"\[1\] are not in exactly one group"):
        check_consensus(Fixed((0, 1, 2), [((0, 1), (1, 2))]))
    assert check_consensus(Fixed((0, 1, 2), [((0, 1), (2,)), ((0,), (1, 2))])).contraction == pytest.approx(0.5)


def test_two_connections_on_an_uplink_are_refused() -> None:
    homes = [(0, 1), (2, 3)]
    check_uplinks(Fixed((0, 1, 2, 3), [((0, 2), (1,), (3,))]), homes)
    for groups_of_step in (((0, 1, 2), (3,)), ((0, 2), (1, 3))):
        with pytest.raises(WeftError, match="an uplink has one connection"):
            check_uplinks(Fixed((0, 1, 2, 3), [((0, 1), (2, 3)), groups_of_step]), homes)


def test_a_pattern_that_repeats_after_very_long_is_followed_until_all_agree() -> None:
    pattern = divide_and_shuffle(racks(7, 11, 13, 17))
    assert pattern.period == 17017
    found = consensus(pattern)
    assert found.rounds < 1000
    assert 0 < found.contraction < 1e-10
    assert 0.5 < found.rate < 1


def test_dropping_the_shuffle_is_caught() -> None:
    # Without turns the same workers would represent their racks for ever, and the others would hear nothing of them.
    first = divide_and_shuffle(racks(3, 3)).round(0).groups
    with pytest.raises(WeftError, match="never hear of each other"):
        check_consensus(Fixed((0, 1, 2, 3, 4, 5), [first]))


@given(st.integers(1, 40))
def test_the_exponential_graph_is_doubly_stochastic_and_exact_for_powers_of_two(count: int) -> None:
    pattern = ExponentialGraph(tuple(range(count)))
    for step in range(pattern.period):
        matrix = mixing_matrix(pattern, step)
        np.testing.assert_allclose(matrix.sum(axis=0), 1)
        np.testing.assert_allclose(matrix.sum(axis=1), 1)
        sends = pattern.round(step).sends
        assert len(sends) == (count if count > 1 else 0)
        assert all(source in pattern.round(step).group_of(destination) for source, destination in sends)
    found = check_consensus(pattern)
    assert (found.contraction == 0) == (count & (count - 1) == 0)


@given(st.integers(1, 30), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_random_matchings_are_pairs_and_the_same_for_everybody(count: int, seed: int) -> None:
    pattern = RandomMatching(tuple(range(count)), seed)
    check_consensus(pattern)
    for step in range(8):
        found = pattern.round(step).groups
        assert sorted(len(group) for group in found) == [1] * (count % 2) + [2] * (count // 2)
        assert RandomMatching(tuple(range(count)), seed).round(step) == pattern.round(step)


def test_seeds_and_steps_draw_different_matchings() -> None:
    ranks = tuple(range(12))
    drawn = {RandomMatching(ranks, seed).round(step).groups for seed in range(3) for step in range(20)}
    assert len(drawn) == 60


def test_local_sgd_averages_in_every_hth_step_alone() -> None:
    pattern = Everybody((0, 1, 2), every=4)
    assert [len(pattern.round(step).groups) for step in range(8)] == [3, 3, 3, 1, 3, 3, 3, 1]
    assert check_consensus(pattern).contraction == 0
    with pytest.raises(InputError, match="every 0 steps"):
        Everybody((0, 1), every=0)


def test_a_pattern_prints_as_a_small_table() -> None:
    network = two_tier(2, 3)
    text = pattern_table(divide_and_shuffle(network, slow_workers=[2]), network.workers)
    assert text.splitlines()[:4] == [
        "ds-sync, 6 workers, repeats after 6 steps",
        "step  between racks  rack a  rack b",
        "0     a0 b0          a1 a2*  b1 b2",
        "1     a1 b1          a0 a2*  b0 b2",
    ]
    assert text.splitlines()[-1].startswith("consensus: of any disagreement at most 0.")
    assert len(pattern_table(divide_and_shuffle(racks(5, 7))).splitlines()) == 16, "long ones are cut off"
    assert "0>1 1>2 2>0" in pattern_table(ExponentialGraph((0, 1, 2)))
    assert "nothing is left" in pattern_table(Everybody((0, 1)))


def test_slow_ones_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match="rank 9 cannot be slow"):
        with_slow(racks(2, 2), [9])
    with pytest.raises(InputError, match="there is no rack 2"):
        with_slow(racks(2, 2), [], [2])
    with pytest.raises(InputError, match="rank 7 is in none"):
        divide_and_shuffle(racks(2, 3)).round(0).group_of(7)
