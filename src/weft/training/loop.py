"""The loop: steps, evaluations and checkpoints, until the end or until somebody asks to stop."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Protocol

import torch

from weft.runtime import together
from weft.training.checkpoint import FILE, Checkpoint, Conditions, ranks_state
from weft.training.config import Config, to_json
from weft.training.evaluation import averaged_buffers, evaluated
from weft.training.joining import Place
from weft.training.metrics import MetricsFile, StepRecord
from weft.training.sampler import Position
from weft.training.steps import Finished, Stepper
from weft.training.stopping import StopRequest


class Audience(Protocol):
    """Whoever watches a training: on rank 0 alone."""

    def note(self, text: str) -> None:
        """Something that a person should know."""

    def stepped(self, record: StepRecord, share: float) -> None:
        """A step is finished, and with it this share of the training."""


@dataclass(slots=True)
class Totals:
    """Sums over the steps of this run, not of those before a resumption."""

    steps: int = 0
    seconds: float = 0.0
    communication_seconds: float = 0.0
    exposed_seconds: float = 0.0
    bytes_sent: int = 0

    def add(self, record: StepRecord) -> None:
        self.steps += 1
        for name in ("seconds", "communication_seconds", "exposed_seconds", "bytes_sent"):
            setattr(self, name, getattr(self, name) + getattr(record, name))


@dataclass(slots=True)
class Loop:
    """A training in its course. All workers run it in step; rank 0 alone writes and tells."""

    stepper: Stepper
    conditions: Conditions
    position: Position
    elapsed: float
    metrics: MetricsFile | None
    audience: Audience | None
    totals: Totals = field(default_factory=Totals)
    last: StepRecord | None = None
    accuracy: float | None = None
    signal: int = 0
    """by which somebody asked to stop, or 0"""
    _saved: Position | None = None

    @property
    def config(self) -> Config:
        return self.stepper.config

    @property
    def place(self) -> Place:
        return self.stepper.place

    def run(self, request: StopRequest) -> None:
        """Train to the end, or to the step after the one in which the first worker heard a request."""
        self.stepper.model.module.train()
        flying: Finished | None = None
        while not self._at_end() and not self.signal:
            before, finished = self.position, self.stepper.step(self.position, request.number)
            self.position = finished.position
            self._tell(flying)
            flying = finished
            if self._pauses(before):
                self._tell(flying)
                flying = None
        self._tell(flying)
        self._save()

    def _at_end(self) -> bool:
        training = self.config.training
        done = training.steps is not None and self.position.step >= training.steps
        return done or self.position.epoch >= training.epochs

    def _pauses(self, before: Position) -> bool:
        """Whether something is due after this step that must know all about it."""
        every = self.config.output.checkpoint_steps
        return self.position.epoch > before.epoch or self._at_end() or (every > 0 and self.position.step % every == 0)

    def _tell(self, finished: Finished | None) -> None:
        """Record a finished step, with what is due after it."""
        if finished is None:
            return
        record, self.signal = finished.told(self.place.world, self.elapsed)
        self.elapsed = record.elapsed
        self.totals.add(record)
        is_last, epoch_ended = finished.position == self.position, finished.position.epoch > finished.epoch
        if is_last and (
            self._at_end() or (epoch_ended and self.position.epoch % self.config.output.evaluate_epochs == 0)
        ):
            loss, self.accuracy = self.tested()
            record = dataclasses.replace(record, accuracy=self.accuracy, test_loss=loss)
        self.last = record
        if self.metrics is not None:
            self.metrics.add(record)
        if self.audience is not None:
            self.audience.stepped(record, self.share(finished.position))
        if is_last and self._checkpoint_is_due(epoch_ended):
            self._save()

    def tested(self) -> tuple[float, float]:
        """Loss and accuracy of the model as it is now."""
        return evaluated(self.stepper.model.module, self.stepper.data, self.place)

    def _checkpoint_is_due(self, epoch_ended: bool) -> bool:
        output = self.config.output
        by_epoch = epoch_ended and self.position.epoch % output.checkpoint_epochs == 0
        return by_epoch or (output.checkpoint_steps > 0 and self.position.step % output.checkpoint_steps == 0)

    def share(self, position: Position) -> float:
        """Of the training that is done at a position."""
        share, steps = self.stepper.sampler.share(position, self.config.training.epochs), self.config.training.steps
        return share if steps is None else max(share, min(1.0, position.step / steps))

    def _save(self) -> None:
        """Write a checkpoint; everybody waits for it, so that nobody takes a slow disk for a dead rank."""
        if self._saved == self.position:
            return
        self._saved = self.position
        model = self.stepper.model.module
        ranks = ranks_state(model, self.place.device, self.stepper.model.compress_state_dict())
        plan, arrangement = self.stepper.model.choice.to_text(), self.stepper.model.settled_arrangement
        buckets = None if arrangement is None else arrangement.to_json()
        with torch.no_grad(), averaged_buffers(model):
            if self.place.rank == 0:
                Checkpoint(
                    self.position, self.elapsed, to_json(self.config), plan, buckets, self.conditions,
                    model.state_dict(), self.stepper.optimizer.state_dict(), ranks,
                ).write(self.config.folder / FILE)  # fmt: skip
        together.barrier()


def conditions(place: Place) -> Conditions:
    """What the bits of a result depend on besides the file."""
    return Conditions(place.world, torch.get_num_threads(), place.device.type, str(torch.__version__))
