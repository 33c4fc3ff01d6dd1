"""DS-Sync (Wang et al. 2023), Section V: Tables III, IV and V, on the simulator.

Two racks of five machines, 20 Gbit/s a link, one such link between the racks: with more, another job could not be felt. Eight
workers: five and three of which the last of the first rack shares its machine with another job, whose other half is in the second
rack (Table III); four and four, and the other job on machines of its own (Table IV); four and four, alone (Table V).

What the other job takes the paper does not say. Two readings: it sends one flow each way, which shares links fairly with each of
our connections; or it takes half of every link it uses, whatever we do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from weft.groups import GroupTimes, MethodTime, divide_and_shuffle, method_times
from weft.network import Link, Network, two_tier
from weft.planning import plan
from weft.reproductions.findings import Progress, silent
from weft.simulation import Background, Conditions, Slow, simulate

GBIT = 1e9 / 8
LINK = 20 * GBIT
LATENCY = 5e-6
PLANNING_SECONDS = 4.0
Reading = Literal["flow", "half"]
READINGS: tuple[Reading, Reading] = ("half", "flow")

MILLIONS = {"cifar10": 36.5, "cifar100": 36.5, "imagenet": 68.9, "squad": 335.1}
"""Parameters: WideResNet-28-10 twice, WideResNet-50-2, and BERT-large, whose F1 the paper reaches."""
BYTES = {name: millions * 4e6 for name, millions in MILLIONS.items()}
METHODS = ("ar", "hier", "asp", "gossip", "ds-sync")
LABELS = {"ar": "AR", "hier": "Hier. AR", "asp": "ASP (PS)", "gossip": "Gossip", "ds-sync": "DS-Sync"}
OURS = {"ar": "ring-ordered", "hier": "hierarchical", "asp": "asp", "gossip": "gossip", "ds-sync": "ds-sync"}
"""Which of our methods stands for each of the paper's."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One table of the paper: milliseconds by data and method, iterations and accuracies of the first data."""

    table: str
    about: str
    active: tuple[str, ...]
    milliseconds: dict[str, tuple[float, ...]]
    accuracy: dict[str, tuple[float, float]]
    """CIFAR-10: best accuracy and its deviation, percent"""
    slow_workers: tuple[int, ...] = ()
    slow_uplinks: tuple[int, ...] = ()
    flow: tuple[str, str] | None = None
    """the two machines of the other job"""

    @property
    def network(self) -> Network:
        return two_tier(2, 5, LINK, uplink=LINK, latency=LATENCY).with_active(self.active)

    def conditions(self, reading: Reading) -> Conditions | None:
        if self.flow is None:
            return None
        one, two = self.flow
        if reading == "flow":
            return Conditions([Background(one, two), Background(two, one)])
        return Conditions(Slow(link.name, 0.5) for link in self.shared)

    @property
    def shared(self) -> tuple[Link, ...]:
        """The links that the other job uses."""
        one, two = self.flow or ("", "")
        return (*self.network.route(one, two), *self.network.route(two, one)) if self.flow else ()

    @property
    def halved(self) -> Network:
        """The network that is left, as a plan for it sees it."""
        shared, whole = self.shared, self.network
        links = (replace(link, bandwidth=link.bandwidth / 2) if link in shared else link for link in whole.links)
        return replace(whole, links=tuple(links))


ITERATIONS = {"ar": 6560, "hier": 6560, "gossip": 6360, "ds-sync": 5640}
"""CIFAR-10, to the lowest of BSP's best accuracies; the same in all three tables."""
_EXACT = {"ar": (92.51, 0.92), "hier": (92.51, 0.92), "gossip": (92.47, 1.17)}
RACKS = tuple(f"a{i}" for i in range(5)), tuple(f"b{i}" for i in range(5))
SCENARIOS = {
    "inter-rack and end-host": Scenario(
        "III", "5 + 3 workers, another job through worker 4's NIC and the uplink", RACKS[0] + RACKS[1][:3],
        {
            "cifar10": (540.1, 790.2, 567.3, 772.8, 338.1), "cifar100": (545.6, 801.5, 573.8, 778.3, 341.8),
            "imagenet": (825.7, 1078.2, 690.2, 834.5, 412.5), "squad": (3260.7, 4213.2, 2741.7, 2805.5, 1636.6),
        },
        _EXACT | {"asp": (87.46, 1.31), "ds-sync": (92.62, 0.56)}, (4,), (0, 1), ("a4", "b3"),
    ),
    "inter-rack": Scenario(
        "IV", "4 + 4 workers, another job through the uplink", RACKS[0][:4] + RACKS[1][:4],
        {
            "cifar10": (525.1, 515.3, 561.2, 764.1, 331.7), "cifar100": (531.6, 523.5, 581.5, 768.3, 336.1),
            "imagenet": (823.1, 685.2, 701.9, 812.9, 407.4), "squad": (3129.3, 2801.5, 2783.1, 2913.1, 1633.4),
        },
        _EXACT | {"asp": (88.17, 1.58), "ds-sync": (92.79, 0.56)}, (), (0, 1), ("a4", "b4"),
    ),
    "static": Scenario(
        "V", "4 + 4 workers, nobody else", RACKS[0][:4] + RACKS[1][:4],
        {
            "cifar10": (266.1, 390.8, 637.3, 376.9, 200.1), "cifar100": (271.3, 395.1, 641.2, 374.8, 198.1),
            "imagenet": (441.0, 506.6, 785.5, 405.3, 249.2), "squad": (1631.8, 2233.4, 3146.9, 1502.6, 1060.2),
        },
        _EXACT | {"asp": (88.85, 1.45), "ds-sync": (92.79, 0.56)},
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario and reading: our times of every method, for CIFAR-10's model."""

    scenario: str
    reading: Reading
    times: dict[str, MethodTime]
    undivided: float
    """DS-Sync, if it never noticed the other job"""
    planned: float
    """an exact all-reduce of all workers, by the plan for what is left of the network"""
    plan: str
    bound: float
    """no exact all-reduce is faster, if the other job takes half"""

    def seconds(self, method: str) -> float:
        return self.times[OURS[method]].seconds

    def speedup(self, method: str) -> float:
        """How many times faster than all-reduce."""
        return self.seconds("ar") / self.seconds(method)


def paper_speedups(scenario: Scenario, method: str) -> list[float]:
    """The paper's, for all four data."""
    place = METHODS.index(method)
    return [times[0] / times[place] for times in scenario.milliseconds.values()]


def rows(progress: Progress = silent) -> list[Row]:
    """All scenarios, in both readings where somebody else is there."""
    cases = [(name, reading) for name, s in SCENARIOS.items() for reading in READINGS if s.flow or reading == "half"]
    found: list[Row] = []
    for name, reading in cases:
        progress(len(found), len(cases))
        found.append(row_of(name, reading))
    return found


def row_of(name: str, reading: Reading) -> Row:
    """One scenario in one reading."""
    scenario = SCENARIOS[name]
    network, nbytes, conditions = scenario.network, BYTES["cifar10"], scenario.conditions(reading)
    times = method_times(network, nbytes, conditions, scenario.slow_workers, scenario.slow_uplinks)
    plain = GroupTimes(network, nbytes, conditions).pattern(divide_and_shuffle(network)).seconds
    best = plan(scenario.halved, nbytes, seconds=PLANNING_SECONDS)
    planned = simulate(best.schedule, network, nbytes, conditions).seconds
    return Row(name, reading, times, plain, planned, best.collective, best.bound)
