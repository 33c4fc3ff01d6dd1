"""Proposals: ways to bucket and launch the gradients of a workload, with the step that each is predicted to take."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from weft.overlap import SCHEDULERS, Arrangement, BucketRule, CommunicationModel, Workload, fixed_size, step

AT_ONCE = "buckets of"
MEGABYTES = (1, 2, 5, 10, 25, 100)
"""Sizes of buckets such as people try by hand."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Buckets that a scheduler made; ``way`` is how they are averaged, a name that the models have."""

    scheduler: str
    way: str
    arrangement: Arrangement
    seconds: float
    """predicted, from one step to the next"""

    def __str__(self) -> str:
        count = len(self.arrangement.buckets)
        most = min(count, self.arrangement.together)
        together = f", up to {most} at once" if most > 1 else ""
        return f"{self.scheduler}: {count} bucket{'s' * (count > 1)}{together}, by {self.way}"


def proposals(
    workload: Workload,
    models: Mapping[str, CommunicationModel],
    kinds: Sequence[Hashable],
    schedulers: Sequence[str] = tuple(SCHEDULERS),
) -> list[Proposal]:
    """What the schedulers make of a workload for each model, the fastest first; each arrangement once a way.

    ``kinds`` are the types of the gradients: what is of different types cannot share a bucket.
    """
    found: dict[tuple[str, Arrangement], Proposal] = {}
    for way, model in models.items():
        made = [(name, SCHEDULERS[name](workload, model)) for name in schedulers]
        if "fixed-size" in schedulers:
            made += [(f"{AT_ONCE} {size} MiB", _at_once(fixed_size(workload, model, size << 20))) for size in MEGABYTES]
        for name, whole in made:
            arrangement = whole.divided(kinds)
            seconds = step(workload, arrangement, model).seconds
            found.setdefault((way, arrangement), Proposal(name, way, arrangement, seconds))
    return sorted(found.values(), key=lambda one: one.seconds)


def _at_once(arrangement: Arrangement) -> Arrangement:
    """The same without waiting for each other, as DistributedDataParallel has it."""
    return Arrangement(tuple(BucketRule(rule.parameters) for rule in arrangement.buckets))


def shortlist(all_of_them: Sequence[Proposal], count: int, close: float) -> list[Proposal]:
    """The fastest, at most so many, none predicted to take more than ``close`` times as long as the first, and two more kinds.

    The best of every way is there, whatever is predicted for it, because ways are what predictions know least about; and all
    buckets of one size that are close, because these are what users would try by hand.
    """
    near = [one for one in all_of_them if one.seconds <= close * all_of_them[0].seconds]
    first_of_way = {one.way: one for one in reversed(all_of_them)}.values()
    by_hand = [one for one in near if one.scheduler.startswith(AT_ONCE)]
    return list(dict.fromkeys([*near[:count], *first_of_way, *by_hand]))


def to_text(some: Sequence[Proposal]) -> str:
    """For the other ranks; ``parse`` is the inverse."""
    return json.dumps([[p.scheduler, p.way, p.arrangement.to_json(), p.seconds] for p in some])


def parse(text: str) -> list[Proposal]:
    return [
        Proposal(scheduler, way, Arrangement.of_json(buckets), float(seconds))
        for scheduler, way, buckets, seconds in json.loads(text)
    ]
