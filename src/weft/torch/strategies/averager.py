"""Averager: parameters are updated as soon as their gradients are there, leave for their group, and are awaited when needed.

Backward pass: when all gradients of a bucket have come, the optimizer steps for that bucket alone, and its average within the
group of this step starts. Next forward pass: a layer waits for its own bucket. What is averaged are parameters alone: optimizer
state and buffers (batch normalization) stay each rank's own.

An optimizer that needs all gradients at once, or a script that looks at gradients before the step (to clip them), steps after
the backward pass instead (``in_backward=False``); then everything starts at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import Variable

from weft.errors import ExecutionError, InputError
from weft.groups import EVERY, GroupTimes
from weft.runtime.communicator import Communicator
from weft.runtime.grouping import launch_in_group
from weft.runtime.running import Running
from weft.strategies import Averaging, ensemble_weight
from weft.torch.layers import step_for, tell_of_gradients
from weft.torch.statistics import Interval, Tally, covered
from weft.torch.strategies.parameters import BucketPart, parameter_buckets
from weft.torch.strategies.playbook import shared_playbook
from weft.torch.strategies.timing import followed, gathered_seconds


class Averager:
    """The parameters of one model on one rank, between its own steps and its groups. ``enabled`` is False in ``no_sync``."""

    def __init__(
        self,
        named: Sequence[tuple[str, torch.nn.Parameter]],
        optimizer: torch.optim.Optimizer,
        strategy: Averaging,
        times: GroupTimes,
        us: Communicator,
        group: dist.ProcessGroup | None,
        *,
        bucket_bytes: int,
        in_backward: bool,
        timeout: float | None,
    ) -> None:
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.strategy, self.in_backward, self.enabled = strategy, in_backward, True
        self.tally = Tally()
        self.finished = 0
        """steps"""
        self.adjustments: list[tuple[int, str]] = []
        """after which step the pattern changed, and who was slow then"""
        self.measured: list[float] = []
        """seconds of communication, of the steps since the last look at them"""
        self.averages: list[torch.Tensor] | None = None
        self._optimizer = optimizer
        self._times, self._us, self._group, self._timeout = times, us, group, timeout
        self.buckets = parameter_buckets(self.parameters, bucket_bytes)
        self._homes = {place: b for b, bucket in enumerate(self.buckets) for place in bucket.rule.parameters}
        self._missing: list[set[int]] | None = None
        """of every bucket, whose gradients have not come; None outside of backward passes"""
        self._versions: dict[int, tuple[torch.Tensor, int]] = {}
        self._updated = False
        """whether a pass has updated parameters, and ``step`` was not called yet"""
        self._flights: list[Running | None] = []
        """of the buckets that have left in this step"""
        self._parts: list[BucketPart | None] = []
        """what of them has left, where it is not all"""
        self._flying = 0
        """the step whose parameters are, or were last, on their way"""
        self._intervals: list[Interval] = []
        self._exposed = 0.0
        self._there: set[int] = set(range(len(self.buckets)))
        self.playbook = shared_playbook(us, strategy.pattern, times)
        tell_of_gradients(self, self.parameters)

    # The backward pass

    def gradient_is_there(self, place: int) -> None:
        """Called by autograd when a parameter's gradient has been accumulated."""
        if not self.enabled or not self.in_backward:
            return
        if self._missing is None:
            self._begin()
        assert self._missing is not None
        self._missing[self._homes[place]].discard(place)
        self._advance()

    def _begin(self) -> None:
        if self._updated:
            raise InputError(
                "this backward pass follows another one without step(): call step() after every pass, or accumulate gradients "
                "inside no_sync()"
            )
        self._leave()
        self._missing = [set(bucket.rule.parameters) for bucket in self.buckets]
        self._versions = {}
        Variable._execution_engine.queue_callback(self._finish)

    def _advance(self) -> None:
        """Update and send every bucket that is full, in order, up to the first that is not."""
        assert self._missing is not None
        while len(self._flights) < len(self.buckets) and not self._missing[len(self._flights)]:
            bucket = self.buckets[len(self._flights)]
            step_for(self._optimizer, bucket.parameters)
            for place in bucket.rule.parameters:
                gradient = self.parameters[place].grad
                if gradient is not None:
                    self._versions[place] = gradient, gradient._version
            self._launch()

    def _finish(self) -> None:
        """At the end of the backward pass: what had no gradient stays as it is, and is averaged like the rest."""
        assert self._missing is not None
        for missing in self._missing:
            missing.clear()
        self._advance()
        self._missing, self._updated = None, True

    def _leave(self) -> None:
        """What left in the last step has arrived; another one begins."""
        self.settle()
        self._flights, self._parts, self._there, self._flying = [], [], set(), self.finished

    def _launch(self) -> None:
        """The next bucket leaves for its group, if anybody averages in this step."""
        exchange = self.strategy.exchange(self.finished)
        which, bucket, rank = exchange.round, self.buckets[len(self._flights)], self._us.transport.rank
        flat, flight, part = bucket.flat, None, None
        own = exchange.part if exchange.part.parts > 1 else which.part_of(which.group_of(rank))
        if own.parts > 1:
            part = BucketPart(bucket, own)
            flat = part.flat
        # Of a small bucket a part may be empty: with everybody, or in some groups only, whose members then just take part.
        leaves = flat if exchange.part.parts > 1 else bucket.flat
        if leaves.numel() and any(len(group) > 1 for group in which.groups):
            schedule = self.playbook.schedule(which, rank, flat.nbytes) if flat.numel() else None
            subject = self._subject(bucket.flat, exchange.part.parts)
            flight = launch_in_group(self._us, which, schedule, flat, subject, self._timeout)
            sent = sum(message.stop - message.start for message in flight.execution.program.outgoing)
            self.tally.add((), 0.0, sent * flat.element_size(), 0)
        self._flights.append(flight)
        self._parts.append(part)

    def _subject(self, flat: torch.Tensor, parts: int) -> str:
        """What all groups agree on: how much each sends is its own affair."""
        dtype = str(flat.dtype).removeprefix("torch.")
        return f"{self.strategy.name} of {flat.numel()} {dtype} in {parts} parts, in groups {self.playbook.digest}"

    # The step

    def step(self) -> None:
        """Take the optimizer's step, unless the backward pass has; parameters are then on their way."""
        if self._missing is not None:
            raise ExecutionError(
                f"rank {self._us.transport.rank}: the last backward pass was broken off after {len(self._flights)} of "
                f"{len(self.buckets)} buckets, so the ranks are out of step: start again from a checkpoint"
            )
        if self.in_backward:
            self._check_gradients()
        else:
            self._leave()
            self._optimizer.step()
            for _ in self.buckets:
                self._launch()
        self._updated, self._versions = False, {}
        self.finished += 1
        if self.strategy.contention is not None and self.finished % EVERY == 0:
            self._adjust()

    def _check_gradients(self) -> None:
        if not self._updated:
            raise InputError("step() follows no synchronized backward pass: there is nothing to do")
        for place, (gradient, version) in self._versions.items():
            if gradient._version != version:
                raise InputError(
                    f"the gradient of {self.names[place]!r} was changed after the backward pass, which has used it: to clip or "
                    "scale gradients, wrap the model with in_backward=False"
                )

    def _adjust(self) -> None:
        """Look at how long groups took since the last time, all ranks together."""
        self.settle()
        device = self.parameters[0].device
        measured = gathered_seconds(self.measured, device, self._group)
        first = self.finished - len(self.measured)
        after = followed(self.strategy, first, measured, self.playbook)
        self.measured = []
        if after.pattern != self.strategy.pattern:
            self.adjustments.append((self.finished, str(after.contention)))
            self.playbook = shared_playbook(self._us, after.pattern, self._times)
        self.strategy = after

    # Waiting

    def settle(self, places: Iterable[int] | None = None) -> None:
        """Return when the averages of these parameters are there, or of all."""
        if len(self._there) == len(self.buckets):
            return
        wanted = range(len(self.buckets)) if places is None else sorted({self._homes[place] for place in places})
        for b in wanted:
            if b not in self._there and b < len(self._flights):
                self._await(b)
        if len(self._there) == len(self.buckets):
            if self.strategy.contention is not None:
                self.measured.append(covered(self._intervals))
            self.tally.add(self._intervals, self._exposed, 0)
            self._intervals, self._exposed, self._flights, self._parts = [], 0.0, [], []

    def _await(self, b: int) -> None:
        begun, flight = monotonic(), self._flights[b]
        if flight is not None:
            flight.wait()
            self._exposed += monotonic() - begun
            self._intervals.append((flight.execution.begun, flight.execution.ended or monotonic()))
            part = self._parts[b]
            if part is not None:
                part.put_back()
        self._there.add(b)
        if self.strategy.ensemble is not None:
            self._remember(b, ensemble_weight(self.strategy.ensemble, self._flying))

    @torch.no_grad()
    def _remember(self, b: int, weight: float) -> None:
        if self.averages is None:
            self.averages = [bucket.flat.clone() for bucket in self.buckets]
        self.averages[b].lerp_(self.buckets[b].flat, weight)

    @torch.no_grad()
    def restore(self, state: dict[str, Any]) -> None:
        """Go on as the same rank has saved; all ranks call this together."""
        self.settle()
        self.finished, self.measured = int(state["finished"]), [float(x) for x in state["measured"]]
        self.averages = state["averages"]
        if state["slow"] is not None and self.strategy.contention is not None:
            # Trainings that were saved before know of no uplink that is crossed by halves.
            workers, uplinks, counts, *halved = state["slow"]
            self.strategy = self.strategy.as_known(
                tuple(workers), tuple(uplinks), tuple(map(tuple, counts)), tuple(*halved)
            )
            self.playbook = shared_playbook(self._us, self.strategy.pattern, self._times)

    def state(self) -> dict[str, Any]:
        """What this rank has besides parameters and the optimizer's state: plain values and tensors."""
        self.settle()
        contention = self.strategy.contention
        slow = None
        if contention is not None:
            counts = [list(x) for x in contention.times]
            slow = [list(contention.slow_workers), list(contention.slow_uplinks), counts, list(contention.halved)]
        return {"finished": self.finished, "measured": self.measured, "averages": self.averages, "slow": slow}
