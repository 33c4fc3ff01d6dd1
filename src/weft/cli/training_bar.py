"""How a training goes: a line for every evaluation, and below them a bar, on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING

from weft.cli.output import print_line

if TYPE_CHECKING:
    from weft.training import Config
    from weft.training.metrics import StepRecord

WIDTH = 24
REDRAW_SECONDS = 0.1


class TrainingBar:
    """Shows loss, accuracy, samples per second and the share of time in communication."""

    def __init__(self, config: Config, quiet: bool) -> None:
        self._config, self._quiet = config, quiet
        self._on_terminal = sys.stderr.isatty()
        self._shown = 0
        self._drawn = 0.0
        self._accuracy: float | None = None
        self._since: list[StepRecord] = []

    def note(self, text: str) -> None:
        self.clear()
        sys.stderr.write(f"weft train: {text}\n")

    def stepped(self, record: StepRecord, share: float) -> None:
        self._since.append(record)
        if record.accuracy is not None:
            self._accuracy = record.accuracy
            self.clear()
            if not self._quiet:
                print_line(f"epoch {record.epoch}/{self._config.training.epochs}  {self._numbers()}")
                sys.stdout.flush()
            self._since = []
        elif self._on_terminal and time.monotonic() - self._drawn > REDRAW_SECONDS:
            self._draw(share)

    def _draw(self, share: float) -> None:
        numbers = self._numbers()
        columns = shutil.get_terminal_size().columns - 1
        width = max(8, min(WIDTH, columns - len(numbers) - 9))
        filled = int(width * share)
        text = f"[{'#' * filled}{'.' * (width - filled)}] {share:4.0%}  {numbers}"[:columns]
        sys.stderr.write("\r" + text.ljust(min(self._shown, columns)))
        sys.stderr.flush()
        self._shown, self._drawn = len(text), time.monotonic()

    def _numbers(self) -> str:
        """Of the steps since the last evaluation."""
        since = self._since
        seconds = max(sum(record.seconds for record in since), 1e-9)
        loss = sum(record.loss for record in since) / len(since)
        accuracy = "     -" if self._accuracy is None else f"{self._accuracy:6.2%}"
        speed = sum(record.samples for record in since) / seconds
        share = sum(record.communication_seconds for record in since) / seconds
        return f"loss {loss:.4f}  accuracy {accuracy}  {speed:,.0f} samples/s  communication {share:.0%}"

    def clear(self) -> None:
        """Leave an empty line where the bar was."""
        if self._shown:
            sys.stderr.write("\r" + " " * self._shown + "\r")
            sys.stderr.flush()
            self._shown = 0
