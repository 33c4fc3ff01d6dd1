"""How a worker's part in a sparse collective is written: a generator, which knows of no ground that it runs on.

It yields a ``Round`` (what it sends to whom, and from whom it expects something) and is sent what has arrived, from each of
those one message; then it works, and yields the next. What it returns in the end is its result. A worker's round is over when
everything that it expects has arrived. The n-th message from one worker to another is the n-th that this one expects from it.

Grounds drive such generators: ``memory`` all of them in one process, ``simulated`` on a network, and ``weft.torch`` for real.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from weft.sparse.index_coding import Bytes
from weft.sparse.wire import Message

Result = TypeVar("Result")
Arrived = Mapping[int, Bytes]
"""by the rank that sent it"""
Receives = Sequence[tuple[int, int]]
"""a rank, and how many bytes a message from it has at most"""


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Messages by the rank that they are for, and, by rank, how many bytes a message from it has at most.

    ``meanwhile`` is work that may be done while they are on their way. A ground that leaves it to the part has it done later.
    ``ahead`` is what later rounds will expect, from whom and how many bytes at most, one after the other: a ground may make room
    for it before.
    """

    sends: Mapping[int, Message] = field(default_factory=dict)
    receives: Mapping[int, int] = field(default_factory=dict)
    meanwhile: Callable[[], None] | None = None
    ahead: Receives = ()


Part = Generator[Round, Arrived, Result]
