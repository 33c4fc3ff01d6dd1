"""Arrangement: which gradients are sent together, and when each bucket may leave.

Buckets are launched in the order of the list, on every rank alike. A bucket leaves when all of its gradients are there, those
before it have left, and all up to the one that it is told to come ``after`` have ended. If only that one had to end, one from
before it might still be on its way, and more would be at once than was meant. An arrangement is only words: it can be computed
elsewhere, and exchanged between steps.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import InputError


@dataclass(frozen=True, slots=True)
class BucketRule:
    """The gradients of one bucket, as places in the list of parameters, and when it may leave."""

    parameters: tuple[int, ...]
    after: int | None = None
    """an earlier bucket: it and all before it must have ended before this one leaves; None: it leaves as soon as it is full"""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The buckets of a model, in the order in which they are launched."""

    buckets: tuple[BucketRule, ...]

    def __post_init__(self) -> None:
        for number, rule in enumerate(self.buckets):
            if not rule.parameters:
                raise InputError(f"bucket {number} is empty: give it a parameter, or leave it out")
            if rule.after is not None and not 0 <= rule.after < number:
                raise InputError(f"bucket {number} cannot wait for bucket {rule.after}: only for an earlier one")

    def check(self, parameters: int) -> None:
        """Every gradient is in exactly one bucket."""
        found = sorted(place for rule in self.buckets for place in rule.parameters)
        if found != list(range(parameters)):
            wrong = set(range(parameters)) ^ set(found) or {p for p in found if found.count(p) > 1}
            raise InputError(f"parameters {sorted(wrong)} of {parameters} are not in exactly one bucket")

    @property
    def together(self) -> int:
        """How many buckets may be on their way at once, by the rules alone."""
        ended, most = -1, 0
        for number, rule in enumerate(self.buckets):
            # Launching is in order, so what one bucket had to wait for has ended before all later ones.
            ended = max(ended, -1 if rule.after is None else rule.after)
            most = max(most, number - ended)
        return most

    def to_json(self) -> list[list[Any]]:
        """For each bucket its parameters and what it comes after; ``of_json`` is the inverse."""
        return [[list(rule.parameters), rule.after] for rule in self.buckets]

    @staticmethod
    def of_json(document: Any) -> Arrangement:
        try:
            rules = [(tuple(map(int, places)), None if after is None else int(after)) for places, after in document]
        except (TypeError, ValueError) as error:
            raise InputError(f"this is not an arrangement that Weft wrote: {error}") from error
        return Arrangement(tuple(BucketRule(places, after) for places, after in rules))

    def divided(self, kinds: Sequence[Hashable]) -> Arrangement:
        """The same with buckets of one kind each: those that mix are divided, and their parts leave together."""
        rules: list[BucketRule] = []
        last: list[int] = []
        for rule in self.buckets:
            after = None if rule.after is None else last[rule.after]
            for kind in dict.fromkeys(kinds[place] for place in rule.parameters):
                rules.append(BucketRule(tuple(p for p in rule.parameters if kinds[p] == kind), after))
            last.append(len(rules) - 1)
        return Arrangement(tuple(rules))

    def __str__(self) -> str:
        return " ".join(
            ",".join(map(str, rule.parameters)) + ("" if rule.after is None else f" after {rule.after};")
            for rule in self.buckets
        )


def arranged(order: Sequence[int], ends: Sequence[int], reach: Sequence[int] | int) -> Arrangement:
    """Buckets that are cut from ``order``, each up to the place in ``ends``.

    ``reach`` says how many may be on their way when a bucket leaves, itself included: one with a reach of 1 waits for its
    predecessor, one with a reach of 3 for the third before it.
    """
    reaches = [reach] * len(ends) if isinstance(reach, int) else list(reach)
    rules, begin = [], 0
    for number, (end, far) in enumerate(zip(ends, reaches, strict=True)):
        rules.append(BucketRule(tuple(order[begin:end]), number - far if number >= far else None))
        begin = end
    return Arrangement(tuple(rules))
