"""Tuning: which gradients leave together and which buckets at once, found out while training goes on.

The first steps are profiled with buckets that wait for the end of the backward pass, so that computing is timed undisturbed.
Then averages are timed, alone and beside others. Rank 0 makes buckets from both, and all ranks take them from the next step on.
With ``"auto"`` several proposals take turns in real steps, and the fastest stays; when steps later take much longer or
shorter than they did, everything is found out again. All that happens when the averages of a synchronized backward pass are
there, which all ranks have in common. Buckets decide when gradients are averaged and never what is averaged: a switch changes
results by the rounding of sums at most.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from statistics import mean, median
from time import monotonic
from typing import TYPE_CHECKING

import torch.distributed as dist

from weft.errors import InputError
from weft.overlap import SCHEDULERS, CommunicationModel, Step, Workload, step
from weft.runtime.turns import slowest
from weft.torch.choice import BACKEND, Choice
from weft.torch.contending import measured_model
from weft.torch.profiling import profiled
from weft.torch.proposing import Proposal, parse, proposals, shortlist, to_text
from weft.torch.racing import fastest_first, having_a_turn
from weft.torch.recording import Recording
from weft.units import format_seconds

if TYPE_CHECKING:
    from weft.runtime.communicator import Communicator
    from weft.torch.synchronizer import Synchronizer

AUTO = "auto"
OVERLAPS = (AUTO, *SCHEDULERS)
WARM_UP, PROFILED = 3, 12
"""steps, enough of them that the last rank's medians are later than others' for a reason and not by chance"""
TRIED = 3
"""proposals, besides the best of every way and buckets of one size"""
CLOSE = 1.25
"""times as long as the best: so far predictions may be off"""
STEPS = 4
"""of a turn, of which the first does not count"""
WINDOW = 20
"""steps, whose median is compared with that of the first so many"""
DRIFT = 1.3
WINDOWS = 2
"""in a row that must differ so much: single ones do by chance"""
REST = 10.0
"""times as long as finding out takes passes before it is done again, at least"""
MEASURING = 6.0
"""seconds for each way"""

Course = Generator[None, Recording, None]


@dataclass(frozen=True, slots=True)
class Overlap:
    """What was decided about buckets, and why."""

    proposal: Proposal
    workload: Workload
    model: CommunicationModel
    measured: tuple[tuple[Proposal, float], ...]
    """what proposals took for a step, the fastest first; none if only one was made"""

    @property
    def predicted(self) -> Step:
        """The step as it was foreseen."""
        return step(self.workload, self.proposal.arrangement, self.model)

    @property
    def reasons(self) -> tuple[str, ...]:
        model = self.model
        taken = [
            f"{proposal}: {format_seconds(seconds)} a step, {format_seconds(proposal.seconds)} predicted"
            for proposal, seconds in self.measured
        ]
        return (
            f"computing takes {format_seconds(self.workload.compute_seconds)} a step; an average takes "
            f"{format_seconds(model.a)} and {format_seconds(1e6 * model.b)} a MB, {model.together} at once "
            f"{model.startup[-1]:.2g} and {model.contention[-1]:.2g} times as long (fitted within {model.fit_error:.0%}); "
            f"computing beside it has {model.pace:.0%} of its speed, and it takes {model.drag:.2f} times as long",
            *(taken or [f"{self.proposal}: {format_seconds(self.proposal.seconds)} a step predicted"]),
        )


def scheduler_of(name: str) -> str:
    """The scheduler of a name, with hyphens or underscores; refuses one that is not known before anything is measured."""
    known = name.replace("_", "-")
    if known not in OVERLAPS:
        raise InputError(f"overlap={name!r} is not known: it must be one of {', '.join(OVERLAPS)}")
    return known


class Tuning:
    """What is found out about one model. It is told of every pass, and arranges its gradients anew."""

    def __init__(
        self,
        scheduler: str,
        synchronizer: Synchronizer,
        us: Communicator,
        group: dist.ProcessGroup | None,
        agree: Callable[[str], None],
    ) -> None:
        self.scheduler = scheduler
        self.overlap: Overlap | None = None
        self.settled = False
        """whether all is found out, for now"""
        self._synchronizer, self._us, self._group, self._agree = synchronizer, us, group, agree
        self._choice = synchronizer.averaging.choice
        self.restart()

    def restart(self) -> None:
        """Find everything out again, from the next pass on."""
        self._choice, self.settled = self._synchronizer.averaging.choice, False
        self._course = self._steps()
        next(self._course)

    def passed(self, recording: Recording) -> None:
        """A synchronized pass has ended, on all ranks."""
        self._course.send(recording)

    def _steps(self) -> Course:
        while True:
            begun = monotonic()
            workload = yield from self._profiled()
            models = self._models()
            made = self._us.from_rank_0(lambda w=workload, m=models: self._proposed(w, m), 60.0)  # type: ignore[misc]
            some = parse(made)
            measured = (yield from self._measured(some)) if len(some) > 1 else ()
            best = measured[0][0] if measured else some[0]
            self._take(best)
            self.overlap = Overlap(best, workload, models[best.way], measured)
            self.settled = True
            yield from self._until_drift(REST * (monotonic() - begun))
            self.settled = False

    def _profiled(self) -> Generator[None, Recording, Workload]:
        us = self._synchronizer
        us.held = True
        try:
            found = []
            for _ in range(WARM_UP + PROFILED):
                found.append((yield))
        finally:
            us.held = False
        return profiled(us.names, us.parameters, found[WARM_UP:], self._group)

    def _models(self) -> dict[str, CommunicationModel]:
        averaging, device = self._synchronizer.averaging, self._synchronizer.parameters[0].device
        averaging.choice = self._choice
        models = {averaging.named(self._choice): measured_model(averaging.launch, self._group, device, MEASURING)}
        if self.scheduler == AUTO and self._choice != Choice.of(BACKEND):
            own = measured_model(averaging.launch_on_backend, self._group, device, MEASURING)
            models[averaging.named(Choice.of(BACKEND))] = own
        return models

    def _proposed(self, workload: Workload, models: dict[str, CommunicationModel]) -> str:
        """On rank 0."""
        kinds = [(parameter.dtype, parameter.device) for parameter in self._synchronizer.parameters]
        if self.scheduler == AUTO:
            return to_text(shortlist(proposals(workload, models, kinds), TRIED, CLOSE))
        return to_text(proposals(workload, models, kinds, [self.scheduler])[:1])

    def _measured(self, some: list[Proposal]) -> Generator[None, Recording, tuple[tuple[Proposal, float], ...]]:
        """Steps with each in turn; what they took on the slowest rank, the fastest first."""
        turns: list[list[float]] = [[] for _ in some]
        while racing := having_a_turn(turns):
            for place in racing:
                self._take(some[place])
                own = []
                for _ in range(STEPS):
                    own.append((yield).seconds)
                turns[place] += slowest([mean(own[1:])], self._group)
        return tuple((some[place], seconds) for place, seconds in fastest_first(turns))

    def _take(self, proposal: Proposal) -> None:
        """From the next pass on."""
        us = self._synchronizer
        choice = self._choice if proposal.way == us.averaging.named(self._choice) else Choice.of(BACKEND)
        if us.arrangement != proposal.arrangement or us.averaging.choice != choice:
            self._agree(f"buckets {proposal.arrangement} by {choice.digest}")
            us.averaging.choice = choice
            us.arrange(proposal.arrangement)

    def _until_drift(self, rest: float) -> Course:
        """Return when steps take much longer or shorter than they did at first, but not before so many seconds have passed."""
        first, drifted, ends = 0.0, 0, monotonic() + rest
        while True:
            seconds = []
            for _ in range(WINDOW):
                seconds.append((yield).seconds)
            now, early = slowest([median(seconds), ends - monotonic()], self._group)
            first = first or now
            drifted = 0 if first / DRIFT <= now <= first * DRIFT else drifted + 1
            if self.scheduler == AUTO and drifted >= WINDOWS and early <= 0:
                return
