"""Summary: what came of a training."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.training.loop import Loop


@dataclass(frozen=True, slots=True)
class Summary:
    """Seconds, bytes and steps are of this run; step and epoch count from the beginning."""

    rank: int
    workers: int
    model: str
    data: str
    parameters: int
    step: int
    epoch: int
    steps: int
    loss: float | None
    accuracy: float | None
    seconds: float
    """from start to end, with data, evaluation and checkpoints"""
    step_seconds: float
    samples_per_second: float
    communication_seconds: float
    exposed_seconds: float
    bytes_sent: int
    signal: int
    """by which the training was interrupted, or 0"""
    compress: str | None
    """how gradients were made smaller"""
    selecting_seconds: float | None
    """what rank 0 computed to select and add up; None where everything was sent"""
    wire_seconds: float | None
    """what it waited for messages"""
    plan: str
    """which plan was used, and why"""
    planning_seconds: float
    metrics: str
    checkpoint: str
    trace: str | None

    @staticmethod
    def of(loop: Loop, seconds: float) -> Summary:
        totals, config = loop.totals, loop.config
        samples = totals.steps * loop.stepper.sampler.step_examples
        spent = loop.stepper.model.take_compress_statistics()
        return Summary(
            rank=loop.place.rank, workers=loop.place.world, model=config.model.name, data=config.data.name,
            parameters=sum(p.numel() for p in loop.stepper.model.module.parameters()),
            step=loop.position.step, epoch=loop.position.epoch, steps=totals.steps,
            loss=None if loop.last is None else loop.last.loss, accuracy=loop.accuracy, seconds=seconds,
            step_seconds=totals.seconds, samples_per_second=samples / totals.seconds if totals.seconds else 0.0,
            communication_seconds=totals.communication_seconds, exposed_seconds=totals.exposed_seconds,
            bytes_sent=totals.bytes_sent, signal=loop.signal,
            compress=None if loop.stepper.model.compress is None else str(loop.stepper.model.compress).removeprefix("torch."),
            selecting_seconds=None if spent is None else spent.computing_seconds,
            wire_seconds=None if spent is None else spent.waiting_seconds, plan=loop.stepper.model.report(),
            planning_seconds=loop.stepper.model.decision.seconds,
            metrics=str(config.folder / "metrics.jsonl"), checkpoint=str(config.folder / "checkpoint.pt"),
            trace=config.output.trace,
        )  # fmt: skip

    @property
    def communication_share(self) -> float:
        """Of the time of steps, in which gradients were on the network."""
        return self.communication_seconds / self.step_seconds if self.step_seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        document = asdict(self) | {"communication_share": self.communication_share, "interrupted": self.signal > 0}
        del document["rank"], document["signal"]
        return document
