"""metrics.jsonl: one line of JSON for every step.

``step``, ``epoch`` (both counted from 1), ``loss``, ``samples`` (of all workers), ``seconds`` (of this step), ``elapsed`` (of all
steps so far), ``communication_seconds`` (with gradients on the network), ``exposed_seconds`` (that training waited for it),
``bytes_sent`` (of gradients, by all workers together), ``learning_rate``; and, where the model was evaluated after this
step, ``accuracy`` and ``test_loss``. Loss and seconds are averages over the workers; a loss that is not finite is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from weft.errors import InputError
from weft.files import without_nan, write_atomically


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What is known about a step."""

    step: int
    epoch: int
    loss: float
    samples: int
    seconds: float
    elapsed: float
    communication_seconds: float
    exposed_seconds: float
    bytes_sent: int
    learning_rate: float
    accuracy: float | None = None
    test_loss: float | None = None

    def to_json(self) -> str:
        known = {key: value for key, value in asdict(self).items() if value is not None}
        return json.dumps(without_nan(known), allow_nan=False)


class MetricsFile:
    """Lines are appended as they come; those after ``step``, of a run that went further than its checkpoint, are dropped."""

    def __init__(self, path: Path, step: int) -> None:
        kept = [line for line in _whole_lines(path) if json.loads(line)["step"] <= step] if step else []
        write_atomically(path, "".join(line + "\n" for line in kept))
        self._file = path.open("a")

    def add(self, record: StepRecord) -> None:
        self._file.write(record.to_json() + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _whole_lines(path: Path) -> Iterator[str]:
    """Lines that are records; the last one may be cut off where a machine went down."""
    try:
        lines = path.read_text().splitlines() if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    for line in lines:
        try:
            if isinstance(json.loads(line)["step"], int):
                yield line
        except (ValueError, KeyError, TypeError):
            continue
