"""What a reproduction found, as tables and texts: the same for people, for programs and for a page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is."""
Steps = Callable[[str], AbstractContextManager[Progress]]
"""Says what is being done, and gives a way to say how far it is."""


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, the columns' heads, and rows; the columns ``texts`` are texts, the others numbers."""

    heading: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Findings:
    """The paper's numbers beside ours, the figures as tables, and why they differ."""

    title: str
    numbers: Table
    tables: tuple[Table, ...]
    reasons: tuple[str, ...]
    document: dict[str, Any]
    """all of it for programs"""


def silent(done: int, whole: int) -> None:
    """Nobody wants to know how far it is."""
    del done, whole
