"""One synchronous step, the same wherever it is taken: in memory for all workers at once, or by one worker on a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from weft.groups import Group, Meeting, Part, Pattern, Round
from weft.strategies.strategy import Averaging, Exchange, ensemble_weight


class Ground(Protocol):
    """Where a strategy is executed: what it can be asked to do after a backward pass."""

    def average_gradients(self, which: Round) -> None: ...

    def update(self) -> None:
        """The optimizer's own step."""
        ...

    def average_parameters(self, which: Round, part: Part) -> None: ...

    def remember(self, weight: float) -> None:
        """Take the parameters into their exponential average, with so much weight."""
        ...


def synchronized_update(strategy: Averaging, step: int, ground: Ground) -> Exchange:
    """What follows a backward pass: gradients are there, and afterwards the parameters are those of the next step."""
    exchange = strategy.exchange(step)
    if exchange.what == "gradients":
        ground.average_gradients(exchange.round)
    ground.update()
    if exchange.what == "parameters":
        ground.average_parameters(exchange.round, exchange.part)
    if strategy.ensemble is not None:
        ground.remember(ensemble_weight(strategy.ensemble, step))
    return exchange


Expected = Callable[[Round], Mapping[Group, float]]
"""How long each group of a round takes on the network at rest."""


def meetings_of(
    pattern: Pattern, first: int, seconds: Sequence[Mapping[int, float]], expected: Expected
) -> list[Meeting]:
    """Groups and their times, from what every worker's communication took in the steps from ``first`` on, by rank.

    A group took as long as it took the last of its members.
    """
    found: list[Meeting] = []
    for offset, times in enumerate(seconds):
        which = pattern.round(first + offset)
        for group, usual in expected(which).items():
            took = max((times.get(rank, 0.0) for rank in group), default=0.0)
            if took > 0 and usual > 0:
                found.append(Meeting(group, took, usual))
    return found
