"""Rates that are kept up to date event by event are those of sharing from scratch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import fair_rates
from weft.heap import empty_heap, schedule_at, take_out
from weft.simulation.sharing import join, leave, new_changes, new_flows, new_links, recapacitate, share_again

LINKS = 6


@st.composite
def flow_routes(draw: st.DrawFn) -> list[list[tuple[int, float]]]:
    routes = st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=3, unique=True)
    return [
        [(link, draw(st.sampled_from([1.0, 0.5]))) for link in draw(routes)] for _ in range(draw(st.integers(2, 14)))
    ]


@settings(deadline=None, max_examples=300)
@given(
    routes=flow_routes(),
    capacities=st.lists(st.sampled_from([1.0, 2.0, 5.0, 9.0, 40.0]), min_size=LINKS, max_size=LINKS),
    weights=st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.3]), min_size=14, max_size=14),
    steps=st.lists(st.lists(st.integers(0, 15), min_size=1, max_size=3), min_size=1, max_size=25),
)
def test_rates_after_any_changes_are_the_fair_ones(
    routes: list[list[tuple[int, float]]], capacities: list[float], weights: list[float], steps: list[list[int]]
) -> None:
    count = len(routes)
    start = np.concatenate([[0], np.cumsum([len(route) for route in routes])]).astype(np.int64)
    link = np.array([number for route in routes for number, _ in route], dtype=np.int32)
    share = np.array([part for route in routes for _, part in route])
    flows = new_flows(start, link, share, np.array(weights[:count]))
    links = new_links(np.array(capacities), link)
    changes, heap, rates = new_changes(LINKS, count), empty_heap(count), np.zeros(count)
    flows.remaining[:] = 1e9
    for now, step in enumerate(steps):
        for change in step:
            if change >= 14:
                capacities[change - 14] *= 0.5 if change == 14 else 2.0
                recapacitate(links, changes, change - 14, capacities[change - 14])
            elif change < count and flows.joined[change]:
                leave(flows, links, changes, change)
                take_out(heap, change)
            elif change < count:
                join(flows, links, changes, change, float(now))
        share_again(flows, links, changes, heap, rates, float(now))
        active = {f: (routes[f], weights[f]) for f in range(count) if flows.joined[f]}
        expected = fair_rates(active, capacities)
        assert {f: flows.rate[f] for f in active} == pytest.approx(expected, rel=1e-9)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 100)), max_size=60))
def test_the_heap_always_has_the_earliest_on_top(steps: list[tuple[int, float]]) -> None:
    heap = empty_heap(10)
    times: dict[int, float] = {}
    for item, time in steps:
        if item in times and time < 30:
            take_out(heap, item)
            del times[item]
        else:
            schedule_at(heap, item, time)
            times[item] = time
        assert heap.size[0] == len(times)
        if times:
            assert heap.time[heap.items[0]] == min(times.values())
