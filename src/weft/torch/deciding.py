"""plan="auto": measure the network, plan for it, and keep the plan only where it is measured to be faster than the backend.

What is measured are the buckets of the model at hand: first each class of sizes alone, plan and backend in turn, then all
buckets together as at the end of a backward pass.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

from weft.errors import ExecutionError, WeftError
from weft.network import Network
from weft.planning import Costs, Plan, shortlist
from weft.runtime.choosing import Tried, paced, refined, tried
from weft.runtime.communicator import Communicator
from weft.runtime.communicators import communicator
from weft.runtime.costs import measured_costs
from weft.runtime.probe import probe
from weft.runtime.turns import slowest, timed
from weft.torch.choice import BACKEND, Choice, Way, name_of
from weft.torch.flights import Averaging, Flight
from weft.units import format_bytes, format_seconds

TURNS, LEAST_TURNS = 7, 3
MOST_SECONDS = 3.0
"""for the turns of one comparison, if that leaves enough of them"""
HOPELESS = 2.0
"""A plan that takes this many times as long in its first turn is not tried again."""
WORTH = 0.97
"""A plan must take at most this part of the backend's time: less is noise."""
SAME_CLASS = 2.0
"""Buckets whose sizes differ by no more than this factor have one plan."""
PLANNING_SECONDS = 4.0
CANDIDATES, SPARE = 3, 3
"""Plans for a size that are tried, if they are predicted to be about equally fast; and more, if these take longer than that."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What a way and the backend took for so many bytes, in the median; and whether the way is kept."""

    nbytes: int
    way: str
    seconds: float
    backend_seconds: float
    turns: int

    @property
    def kept(self) -> bool:
        return self.seconds <= WORTH * self.backend_seconds

    def __str__(self) -> str:
        verdict = "kept" if self.kept else "the backend's own all-reduce stays"
        return (
            f"{format_bytes(self.nbytes)}: {self.way} took {format_seconds(self.seconds)}, the backend "
            f"{format_seconds(self.backend_seconds)} (medians of {self.turns}): {verdict}"
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """What was chosen, and why, in words; ``seconds`` is what finding out has taken."""

    choice: Choice
    reasons: tuple[str, ...]
    trials: tuple[Trial, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        return "\n".join([f"{self.choice}, decided in {format_seconds(self.seconds)}:", *self.reasons])


def decided(
    tensors: Sequence[torch.Tensor],
    averaging: Averaging,
    group: dist.ProcessGroup | None,
    network: Network | None,
    *,
    together: bool = True,
) -> Decision:
    """The decision for buckets of these sizes; the tensors themselves are not touched. Called by all ranks together.

    ``together``: whether they are the buckets of one backward pass, to be tried all at once.
    """
    begun = time.monotonic()
    if averaging.ranks == 1:
        return Decision(Choice.of(BACKEND), ("there is only one rank",))
    tensors = [torch.zeros_like(tensor) for tensor in tensors]
    sizes = size_classes([tensor.nbytes for tensor in tensors])
    us = communicator(group, tensors[0].device)
    known = _network(network, group)
    costs = measured_costs(communicator(group), group, known if isinstance(known, Network) else None)
    seconds = 300 + 10 * PLANNING_SECONDS * len(sizes)
    handed = us.from_rank_0(lambda: _planned(known, sizes, costs), seconds)
    if handed.startswith("!"):
        reason = f"the network could not be measured ({handed[1:]}), so there is no plan"
        return Decision(Choice.of(BACKEND), (reason,), (), time.monotonic() - begun)
    plans = Choice.parse(handed)
    plans.check(averaging.ranks)
    fastest = _fastest(plans, us, group, costs)
    decision = _tried(Choice.of([one.plan for one in fastest]), tensors, averaging, group, together)
    kept = [way for _, way in decision.choice.ways]
    held_back = tuple(f"{name_of(one.plan)} is paced" for one in fastest if one.paced and one.plan in kept)
    return Decision(decision.choice, (*decision.reasons, *held_back), decision.trials, time.monotonic() - begun)


def size_classes(sizes: Sequence[int]) -> list[int]:
    """A size for every group of similar ones: the largest of each."""
    classes: list[int] = []
    for size in sorted(set(sizes), reverse=True):
        if not classes or classes[-1] > SAME_CLASS * size:
            classes.append(size)
    return sorted(classes)


def network_of(given: Network | str | Path | None) -> Network | None:
    """A network, or the one in a file."""
    return Network.load(given) if isinstance(given, str | Path) else given


def _network(given: Network | None, group: dist.ProcessGroup | None) -> Network | str:
    """The network that was given or measured, or why it could not be measured. All ranks take part in measuring."""
    if given is not None:
        return given
    try:
        return probe(group).network
    except ExecutionError:
        raise
    except WeftError as error:
        return str(error)


def _planned(network: Network | str, sizes: Sequence[int], costs: Costs) -> str:
    """On rank 0: plans for these sizes as text, or what went wrong."""
    if isinstance(network, str):
        return "!" + network
    found = partial(shortlist, network, count=CANDIDATES, seconds=PLANNING_SECONDS, costs=costs, spare=SPARE)
    return Choice.of([plan for size in sizes for plan in found(nbytes=size)]).to_text()


def _fastest(plans: Choice, us: Communicator, group: dist.ProcessGroup | None, costs: Costs) -> list[Tried]:
    """Of the plans for each size the one that is measured to be the fastest."""
    fastest = []
    for one in dict.fromkeys(size for size, _ in plans.ways):
        of_this_size = [way for size, way in plans.ways if size == one and isinstance(way, Plan)]
        best = tried(us, of_this_size, group, MOST_SECONDS, CANDIDATES)[0]
        best = paced(us, best, costs, group, MOST_SECONDS)
        fastest.append(refined(us, best, costs, group, MOST_SECONDS))
    return fastest


def _tried(
    plans: Choice,
    tensors: Sequence[torch.Tensor],
    averaging: Averaging,
    group: dist.ProcessGroup | None,
    together: bool,
) -> Decision:
    """Each plan against the backend, and then what was kept, for all buckets together."""
    ways: list[tuple[int, Way]] = []
    trials = []
    for size, way in plans.ways:
        tensor = max((t for t in tensors if t.nbytes <= size), key=lambda t: t.nbytes)
        trial = _compared([tensor], Choice(((size, way),)), averaging, group)
        trials.append(trial)
        ways.append((size, way if trial.kept else BACKEND))
    choice, reasons = Choice(tuple(ways)), [str(trial) for trial in trials]
    if together and any(trial.kept for trial in trials) and len(tensors) > 1:
        all_of_them = _compared(tensors, choice, averaging, group)
        trials.append(all_of_them)
        reasons.append(f"all {len(tensors)} buckets together, {all_of_them}")
        if not all_of_them.kept:
            choice = Choice.of(BACKEND)
    return Decision(choice, tuple(reasons), tuple(trials))


def _compared(
    tensors: Sequence[torch.Tensor], choice: Choice, averaging: Averaging, group: dist.ProcessGroup | None
) -> Trial:
    """Average all tensors at once by a choice and by the backend, in turn."""
    ours = Averaging(choice, group, averaging.weights, averaging.timeout)
    ways = (ours.launch, ours.launch_on_backend)
    name = name_of(choice.way(tensors[0].nbytes)) if len(tensors) == 1 else str(choice)
    nbytes = sum(tensor.nbytes for tensor in tensors)
    _turn(ways, tensors, group)  # connects, agrees and fills caches
    first = _turn(ways, tensors, group)
    if first[0] > HOPELESS * first[1]:
        return Trial(nbytes, name, first[0], first[1], 1)
    turns = max(LEAST_TURNS, min(TURNS, int(MOST_SECONDS / sum(first))))
    times = [first, *(_turn(ways, tensors, group) for _ in range(turns - 1))]
    plan, backend = (median(column) for column in zip(*times, strict=True))
    return Trial(nbytes, name, plan, backend, turns)


def _turn(
    ways: Sequence[Callable[[torch.Tensor], Flight]], tensors: Sequence[torch.Tensor], group: dist.ProcessGroup | None
) -> list[float]:
    """The seconds that each way takes."""

    def all_by(launch: Callable[[torch.Tensor], Flight]) -> None:
        for flight in [launch(tensor) for tensor in tensors]:
            flight.wait()

    return slowest([timed(partial(all_by, launch), group) for launch in ways], group)
