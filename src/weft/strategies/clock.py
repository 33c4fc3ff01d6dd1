"""What steps take on a network, simulated: computing, then communication, one after the other.

Nothing is hidden behind computing here, for no strategy: how much can be is another question (``weft.overlap``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from weft.errors import InputError
from weft.groups import GroupTimes, Meeting, Round, RoundTime, serving_seconds
from weft.network import Network
from weft.planning.costs import Costs
from weft.schedule import Schedule
from weft.simulation import Conditions
from weft.strategies.driving import meetings_of
from weft.strategies.strategy import Averaging, Serving

ConditionsAt = Callable[[int], Conditions | None]
"""What disturbs the network in a step."""


def at_rest(step: int) -> Conditions | None:
    """Nothing ever disturbs the network."""
    del step
    return None


@dataclass
class StepClock:
    """Times of steps on one network; what disturbs it may change from step to step."""

    network: Network
    nbytes: float
    compute_seconds: float
    speeds: tuple[float, ...] = ()
    """of each worker's computing; if left out, all compute alike"""
    conditions: ConditionsAt = at_rest
    collective: str | None = None
    """how groups average, by name; if left out, the fastest of a few for every group"""
    given: tuple[Schedule, ...] = ()
    """schedules that are to be taken for those who take part in them"""
    costs: Costs = field(default_factory=Costs)
    _times: dict[Conditions | None, GroupTimes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.speeds and len(self.speeds) != len(self.network.active):
            raise InputError(
                f"{len(self.speeds)} speeds are given, and {len(self.network.active)} workers take part: give one for each"
            )
        if not self.compute_seconds >= 0 or not all(speed > 0 for speed in self.speeds):
            raise InputError(
                f"computing for {self.compute_seconds} s at {self.speeds} is not possible: all must be above 0"
            )

    def compute(self, rank: int) -> float:
        """How long one worker computes."""
        if not self.speeds:
            return self.compute_seconds
        return self.compute_seconds / self.speeds[self.network.active.index(rank)]

    @property
    def longest_compute(self) -> float:
        return max(self.compute(rank) for rank in self.network.active)

    def communication(self, which: Round, step: int) -> RoundTime:
        """A round in a step, as the network is then."""
        return self._at(self.conditions(step)).round(which)

    def meetings(self, strategy: Averaging, first: int, last: int) -> list[Meeting]:
        """What all workers would have measured in the steps from ``first`` to before ``last``."""
        seconds = [self.communication(strategy.pattern.round(step), step).workers for step in range(first, last)]
        return meetings_of(strategy.pattern, first, seconds, lambda which: self._at(None).round(which).groups)

    def cycles(self, strategy: Serving, step: int = 0) -> dict[int, float]:
        """How long each worker takes to compute, push and pull."""
        conditions = self.conditions(step)
        sent = serving_seconds(self.network, self.nbytes, strategy.servers, conditions, self.costs)
        return {rank: self.compute(rank) + sent[rank] for rank in strategy.workers}

    def _at(self, conditions: Conditions | None) -> GroupTimes:
        if conditions not in self._times:
            self._times[conditions] = GroupTimes(
                self.network, self.nbytes, conditions, self.costs, self.collective, self.given
            )
        return self._times[conditions]
