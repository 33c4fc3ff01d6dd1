"""The job behind ``weft train --in-memory``: train, tell how it goes, and sum up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.files import write_atomically
from weft.groups import consensus
from weft.network import Network
from weft.strategies import Averaging
from weft.training.checkpoint import FILE
from weft.training.config import Config
from weft.training.in_memory import Adjustment, MemoryTraining, memory_training
from weft.training.loop import Audience
from weft.training.metrics import StepRecord


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """What came of it. All seconds are simulated: what the training would have taken on the network."""

    strategy: str
    workers: int
    network: str
    model: str
    data: str
    parameters: int
    steps: int
    loss: float
    accuracy: float
    best_accuracy: float
    best_step: int
    seconds: float
    communication_seconds: float
    bytes_sent: int
    consensus: str | None
    """how fast all workers agree; None where nobody waits for anybody"""
    adjustments: tuple[Adjustment, ...]
    metrics: str

    @property
    def communication_share(self) -> float:
        return self.communication_seconds / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"communication_share": self.communication_share, "simulated": True}


def train_in_memory(
    config: Config, network: Network, audience: Audience | None = None, fresh: bool = False
) -> MemorySummary:
    """Train all workers of a network in this process, as the file says."""
    path = _metrics_path(config.folder, fresh)
    training = memory_training(config, network)
    lines: list[str] = []
    records: list[StepRecord] = []
    try:
        for record in training.records():
            records.append(record)
            lines.append(record.to_json() + "\n")
            if audience is not None:
                audience.stepped(record, record.step / training.steps)
    finally:
        if lines:
            write_atomically(path, "".join(lines))
    return summary_of(training, records, path)


def summary_of(training: MemoryTraining, records: list[StepRecord], path: Path) -> MemorySummary:
    tested = [record for record in records if record.accuracy is not None]
    best = max(tested, key=lambda record: record.accuracy or 0.0)
    strategy, last = training.strategy, records[-1]
    agreed = str(consensus(strategy.pattern)) if isinstance(strategy, Averaging) else None
    return MemorySummary(
        strategy=strategy.name, workers=len(training.network.active), network=training.network.name,
        model=training.config.model.name, data=training.config.data.name, parameters=training.replicas.table.shape[1],
        steps=last.step, loss=last.loss, accuracy=last.accuracy or 0.0, best_accuracy=best.accuracy or 0.0,
        best_step=best.step, seconds=last.elapsed,
        communication_seconds=sum(record.communication_seconds for record in records),
        bytes_sent=sum(record.bytes_sent for record in records), consensus=agreed,
        adjustments=tuple(training.adjustments), metrics=str(path),
    )  # fmt: skip


def reached(records: list[StepRecord], accuracy: float) -> StepRecord | None:
    """The first step after which the model was at least so good."""
    return next((record for record in records if record.accuracy is not None and record.accuracy >= accuracy), None)


def _metrics_path(folder: Path, fresh: bool) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to the folder {folder}: {error.strerror}") from error
    if (folder / FILE).exists() and not fresh:
        raise InputError(
            f"the folder {folder} holds a training of real workers: start again with --fresh, or choose another with -o"
        )
    return folder / "metrics.jsonl"
