"""Synchronizer: averages a model's gradients during every backward pass, by hooks on its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal, get_args

import torch
from torch.autograd import Variable

from weft.errors import ExecutionError, InputError
from weft.overlap.arrangement import Arrangement
from weft.sparse.finite import NotFiniteError
from weft.torch.backward import Backward
from weft.torch.buckets import Bucket
from weft.torch.flights import Averaging
from weft.torch.later import Later, LaterInHalves
from weft.torch.layers import tell_of_gradients
from weft.torch.recording import Recorder, Recording
from weft.torch.statistics import Tally

Unused = Literal["error", "zeros"]
MOST_NAMED = 8


class Synchronizer:
    """The trainable parameters of one model, in buckets. ``enabled`` is False while gradients are only accumulated."""

    def __init__(
        self, named: Sequence[tuple[str, torch.nn.Parameter]], arrangement: Arrangement, averaging: Averaging,
        unused: Unused,
    ) -> None:  # fmt: skip
        if unused not in get_args(Unused):
            raise InputError(f"unused={unused!r} is not known: it must be 'error' or 'zeros'")
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.averaging, self.tally = averaging, Tally()
        self.enabled = True
        self.held = False
        """whether buckets wait for the end of the backward pass, so that computing can be timed undisturbed"""
        self.recorder = Recorder(len(named))
        self.when_passed: Callable[[Recording], None] = lambda _: None
        """called at the end of every synchronized pass, on all ranks alike; it may arrange anew"""
        self.late = False
        """whether averages are not awaited at the end of a backward pass, but by whoever needs them"""
        self.when_there: Callable[[int, bool], None] = lambda *_: None
        """called when the averages of a bucket are there after a late pass, and whether it was the last"""
        self._unused = unused
        self._backward: Backward | None = None
        self._later: tuple[Later, list[tuple[int, int]], bytearray] | None = None
        """the pass whose averages are on their way, with what it lacked and what it used"""
        self._there = 0
        """the first of its buckets that are there"""
        self._used = bytearray(len(named))
        """which parameters have had a gradient since the last synchronization"""
        self.arrange(arrangement)
        tell_of_gradients(self, self.parameters)

    def arrange(self, arrangement: Arrangement) -> None:
        """Use these buckets from the next backward pass on. Gradients that were accumulated stay where they are."""
        arrangement.check(len(self.parameters))
        self.check_idle()
        self.settle()
        self.arrangement = arrangement
        self.buckets = [
            Bucket(rule, self.parameters, with_flags=self._unused == "zeros", names=self.names)
            for rule in arrangement.buckets
        ]
        self._homes = [(0, 0)] * len(self.parameters)
        for b, rule in enumerate(arrangement.buckets):
            for k, place in enumerate(rule.parameters):
                self._homes[place] = (b, k)

    def check_idle(self) -> None:
        """Raise if a backward pass was begun and not ended: something in it has raised."""
        if self._backward is not None:
            raise ExecutionError(
                f"rank {self.averaging.rank}: the last backward pass was broken off after {self._backward.launched} of "
                f"{len(self.buckets)} buckets, so the ranks are out of step: start again from a checkpoint"
            )

    def gradient_is_there(self, place: int) -> None:
        """Called by autograd when a parameter's gradient has been accumulated."""
        self._used[place] = 1
        if not self.enabled:
            return
        self.recorder.gradient(place)
        if self._backward is None:
            self.settle()
            self._backward = self._new_pass()
            Variable._execution_engine.queue_callback(self._finish)
        b, k = self._homes[place]
        if not self._backward.arrive(b, k):
            raise InputError(
                f"the gradient of {self.names[place]!r} came twice in one backward pass, as with reentrant checkpoints: use "
                "torch.utils.checkpoint with use_reentrant=False"
            )

    def _new_pass(self) -> Backward:
        ways = self.averaging
        for bucket in self.buckets:
            bucket.share = ways.share_on_arrival(bucket)
        if not self.late:
            return Backward(self.buckets, ways.launch_bucket, self._used_in, self.held)
        if not any(map(ways.has_halves, self.buckets)):
            return Later(self.buckets, ways.launch_bucket, self._used_in)
        owe = partial(ways.owe, self.parameters[0].device)
        return LaterInHalves(self.buckets, ways.launch_half, self._used_in, owe)

    def _used_in(self, b: int) -> list[int]:
        return [self._used[place] for place in self.arrangement.buckets[b].parameters]

    def _finish(self) -> None:
        """At the end of the backward pass, when autograd has nothing left to do."""
        backward = self._backward
        assert backward is not None
        self.recorder.computed()
        absent = [(b, k) for b in range(len(self.buckets)) for k in backward.complete(b)]
        used, self._used = self._used, bytearray(len(self.names))
        if isinstance(backward, Later):
            backward.leave()
            self._later, self._there, self._backward = (backward, absent, used), len(self.buckets), None
            return
        try:
            backward.wait(self.tally)
        except NotFiniteError:
            self._backward = None  # on all ranks: they are in step
            self.recorder.restart()
            raise
        self._backward = None
        self._end(backward, absent, used)

    @property
    def is_late(self) -> bool:
        return self._later is not None

    def settle(self, places: Iterable[int] | None = None) -> None:
        """Return when the averages of these parameters are there, or of all, if they are still on their way."""
        if self._later is None:
            return
        later, absent, used = self._later
        least = 0 if places is None else min((self._homes[place][0] for place in places), default=self._there)
        while self._there > least:
            b = self._there - 1
            later.there(b)
            self._there = b
            self.when_there(b, b == 0)
        if not self._there:
            self._later = None
            later.count(self.tally)
            self._end(later, absent, used)

    def _end(self, backward: Backward, absent: Sequence[tuple[int, int]], used: bytearray) -> None:
        """All averages are there."""
        for b, k in absent:
            # What nobody used keeps the gradient that it had, if any, as in DistributedDataParallel.
            if self._unused == "error" or float(self.buckets[b].flags[k]) > 0:
                self.buckets[b].attach(k)
        if self._unused == "error":
            self._check_all_used(used)
        self.when_passed(self.recorder.end(backward.intervals))
        self.recorder.restart()

    def _check_all_used(self, used: Sequence[int]) -> None:
        """After the average, so that the others are not left waiting: they may have used what we have not."""
        names = [name for name, was_used in zip(self.names, used, strict=True) if not was_used]
        if names:
            shown = ", ".join(map(repr, names[:MOST_NAMED]))
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            raise InputError(
                f"rank {self.averaging.rank}: {len(names)} of {len(self.names)} parameters had no part in the loss: "
                f"{shown}{more}; freeze them with requires_grad_(False) before wrapping the model, or wrap it with unused='zeros'"
            )
