"""Random workloads, models and arrangements; a slow and obvious step; all arrangements of a few gradients."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product

import numpy as np
from hypothesis import strategies as st

from weft.overlap import Arrangement, CommunicationModel, GradientTensor, Workload
from weft.overlap.arrangement import arranged


def random_case(random: np.random.Generator, tensors: int) -> tuple[Workload, CommunicationModel]:
    """Sizes over five orders of magnitude; computing from a tenth to three times of communication; any contention."""
    a, b = 10 ** random.uniform(-4, -1.5), 10 ** random.uniform(-10, -7)
    together = int(random.integers(1, 9))
    contention = [1.0, *(1 + np.cumsum(random.uniform(0, 1.2, together - 1)))]
    startup = [1.0, *(1 + np.cumsum(random.uniform(0, 0.6, together - 1) * random.integers(0, 2)))]
    sizes = 10 ** random.uniform(2, 7, tensors)
    times = random.exponential(1, tensors) ** random.choice([0.5, 1, 2])
    times *= (a * tensors + 4 * b * sizes.sum()) * 10 ** random.uniform(-1, 0.5) / times.sum()
    gradients = [
        GradientTensor(f"g{i}", int(size), time) for i, (size, time) in enumerate(zip(sizes, times, strict=True))
    ]
    capacity = b * random.choice([0.0, random.uniform(0.2, 1.0)])
    return Workload("random", tuple(gradients)), CommunicationModel(a, b, tuple(contention), tuple(startup), capacity)


seconds = st.integers(0, 50).map(lambda milliseconds: milliseconds / 1024)


@st.composite
def workloads(draw: st.DrawFn, most: int = 12) -> Workload:
    count = draw(st.integers(1, most))
    tensors = tuple(
        GradientTensor(
            f"g{i}", draw(st.integers(1, 100_000)), draw(seconds), draw(seconds), draw(st.sampled_from([2, 4]))
        )
        for i in range(count)
    )
    order = tuple(draw(st.permutations(range(count)))) if draw(st.booleans()) else ()
    return Workload("drawn", tensors, order, draw(seconds))


@st.composite
def models(draw: st.DrawFn) -> CommunicationModel:
    together = draw(st.integers(1, 8))
    rises = st.lists(st.integers(0, 16).map(lambda n: n / 16), min_size=together - 1, max_size=together - 1)
    contention, startup = ((1.0, *(1 + np.cumsum(draw(rises))).tolist()) for _ in range(2))
    return CommunicationModel(
        draw(seconds),
        draw(st.sampled_from([0.0, 2.0**-22, 2.0**-18])),
        contention,
        startup,
        draw(st.sampled_from([0.0, 2.0**-20])),
    )


@st.composite
def arrangements(draw: st.DrawFn, workload: Workload) -> Arrangement:
    """Any cut of any order, with any rules."""
    count = len(workload.tensors)
    inner = draw(st.sets(st.integers(1, count - 1))) if count > 1 else set()
    ends = [*sorted(inner), count]
    order = draw(st.permutations(range(count))) if draw(st.booleans()) else workload.order
    return arranged(order, ends, [draw(st.integers(1, 9)) for _ in ends])


def obvious_times(
    workload: Workload, arrangement: Arrangement, model: CommunicationModel
) -> list[tuple[Fraction, Fraction]]:
    """When each bucket starts and ends after the start of the backward pass, in exact arithmetic."""
    there: dict[int, Fraction] = {}
    now = Fraction(0)
    for place in workload.order:
        now += Fraction(workload.tensors[place].backward_seconds)
        there[place] = now
    rules = arrangement.buckets
    sizes = [sum(workload.tensors[p].nbytes for p in rule.parameters) for rule in rules]
    starts: dict[int, Fraction] = {}
    ends: dict[int, Fraction] = {}
    left: dict[int, Fraction] = {}
    now = Fraction(0)
    while len(ends) < len(rules):
        following = len(starts)
        if following < len(rules) and len(left) < model.together:
            rule = rules[following]
            full = max(there[p] for p in rule.parameters)
            if full <= now and (rule.after is None or all(i in ends for i in range(rule.after + 1))):
                starts[following], left[following] = now, Fraction(1)
                continue
            moments = [full] if full > now else []
        else:
            moments = []
        m = len(left)
        whole = {
            i: max(
                Fraction(model.startup[m - 1]) * Fraction(model.a)
                + Fraction(model.contention[m - 1]) * Fraction(model.b) * sizes[i],
                m * Fraction(model.capacity) * sizes[i],
            )
            for i in left
        }
        then = min([*moments, *(now + left[i] * whole[i] for i in left)])
        for i in list(left):
            left[i] -= (then - now) / whole[i] if whole[i] else left[i]
            if left[i] == 0:
                del left[i]
                ends[i] = then
        now = then
    return [(starts[i], ends[i]) for i in range(len(rules))]


def all_arrangements(order: tuple[int, ...], together: int) -> Iterator[Arrangement]:
    """Every cut of neighbours into buckets, with every rule that makes a difference."""
    count = len(order)
    for cuts in range(count):
        for inner in combinations(range(1, count), cuts):
            ends = [*inner, count]
            for reach in product(*(range(1, min(together, i + 1) + 1) for i in range(len(ends)))):
                yield arranged(order, ends, reach)
