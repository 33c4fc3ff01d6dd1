"""Every method on one network, simulated: what a step's communication takes, and whether all workers agree after it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from weft.collectives import COLLECTIVES
from weft.groups.consensus import consensus
from weft.groups.divide_and_shuffle import divide_and_shuffle
from weft.groups.gossip import Everybody, ExponentialGraph, RandomMatching
from weft.groups.racks import racks_of
from weft.groups.rounds import Pattern
from weft.groups.serving import serving_seconds
from weft.groups.timing import GroupTimes
from weft.network import Network
from weft.planning.costs import Costs
from weft.simulation import Conditions, simulate

ALL_REDUCES = ("ring", "ring-ordered", "hierarchical", "parameter-server")
LOCAL_STEPS = 8


@dataclass(frozen=True, slots=True)
class MethodTime:
    """Seconds of communication in a step on average, in the longest, and what is left of a disagreement after a step."""

    name: str
    seconds: float
    longest: float
    rate: float | None
    """on average over a period; None: nobody waits for anybody, so nothing is promised"""
    exact: bool = False
    """whether the result is that of one worker with all the data, as in BSP"""


def method_times(
    network: Network,
    nbytes: float,
    conditions: Conditions | None = None,
    slow_workers: tuple[int, ...] = (),
    slow_uplinks: tuple[int, ...] = (),
    costs: Costs | None = None,
    servers: int | None = None,
) -> dict[str, MethodTime]:
    """All-reduces, gossip, local SGD, DS-Sync (with the slow ones that it knows of) and ASP, by name."""
    costs = costs or Costs()
    found: dict[str, MethodTime] = {}
    for name in ALL_REDUCES:
        options = {"servers": servers} if name == "parameter-server" and servers else {}
        schedule = COLLECTIVES[name](network, **options)
        seconds = simulate(schedule, network, nbytes, conditions, **asdict(costs)).seconds if len(schedule) else 0.0
        found[name] = MethodTime(name, seconds, seconds, 0.0, exact=True)
    ranks = network.active
    times = GroupTimes(network, nbytes, conditions, costs)
    patterns: dict[str, Pattern] = {
        "local-sgd": Everybody(ranks, LOCAL_STEPS),
        "gossip": ExponentialGraph(ranks),
        "gossip, random pairs": RandomMatching(ranks),
        "ds-sync": divide_and_shuffle(racks_of(network), slow_workers, slow_uplinks),
    }
    for name, pattern in patterns.items():
        time, agreed = times.pattern(pattern), consensus(pattern)
        found[name] = MethodTime(name, time.seconds, time.longest, agreed.rate)
    alone = serving_seconds(network, nbytes, servers, conditions, costs)
    found["asp"] = MethodTime("asp", min(alone.values()), max(alone.values()), None)
    return found
