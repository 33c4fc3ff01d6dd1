"""Task: all that a worker's part in one sparse all-reduce works on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.sparse.finite import Note
from weft.sparse.index_coding import Bytes
from weft.sparse.ledger import Ledger
from weft.sparse.number_formats import NumberFormat, rounded
from weft.sparse.pairs import Pairs, Values
from weft.sparse.quota import Quota
from weft.sparse.rounds import Part
from weft.sparse.summing import Sums
from weft.sparse.watch import Watch
from weft.sparse.wire import Message, Span, decode, encoded, most_bytes


@dataclass(slots=True, eq=False)
class Task:
    """One worker's: its vector in the ``ledger``, what to keep of it, and what its method remembers from call to call."""

    rank: int
    workers: int
    ledger: Ledger
    quota: Quota
    values: NumberFormat = "float32"
    memory: dict[str, Any] = field(default_factory=dict)
    """plain numbers and arrays, the method's own"""
    watch: Watch = field(default_factory=Watch)
    """what was put aside while the vector was added up; nothing that comes out depends on it"""
    note: Note | None = None
    """the first number that is none, of all that this worker has heard of"""
    sums: Sums | None = None
    """where the vector is still being added up"""
    is_settled: bool = False
    """whether the ledger has been, block by block"""
    _arrived: dict[Span, list[Pairs]] = field(default_factory=dict)
    """what is not added to its span yet"""

    @property
    def flat(self) -> Values:
        return self.ledger.flat

    def complete(self) -> None:
        """Have the whole vector added up."""
        self.prepare([(0, self.length)])

    def arrive(self, pairs: Pairs, span: Span) -> None:
        """These belong to a span, which nobody may have looked at yet."""
        self._arrived.setdefault(span, []).append(pairs)

    def prepare(self, spans: Sequence[Span]) -> None:
        """Have these spans added up, with what has arrived for them so far."""
        for span in spans:
            if self.sums is not None:
                self.sums.have(span)
            for pairs in self._arrived.pop(span, ()):
                self.ledger.add(pairs)
        if self.sums is not None and self.sums.wrong >= 0:
            own = Note(self.rank, self.sums.wrong)
            self.note = own if self.note is None else min(own, self.note)

    @property
    def length(self) -> int:
        return self.quota.length

    def selected(self, span: Span, nominal: int | None = None) -> Pairs:
        """The strongest elements of a span, as they will arrive; this worker gives them away."""
        self.prepare([span])
        pairs = rounded(self.quota.strongest(self.flat, span, nominal, self.watch, self.ledger.added), self.values)
        self.ledger.send(pairs)
        return pairs

    def reduced(self, pairs: Pairs, span: Span, nominal: int | None, holders: int, part: float = 1.0) -> Pairs:
        """The strongest of some pairs, as they will arrive. ``holders`` workers have the same ones and do the same."""
        kept, dropped = self.quota.strongest_pairs(pairs, span, nominal, part)
        self.ledger.leave(dropped, 1.0 / holders)
        if self.values == "float32":
            return kept
        coarse = rounded(kept, self.values)
        self.ledger.leave(Pairs(kept.index, kept.value - coarse.value), 1.0 / holders)
        return coarse

    def message(self, blocks: Sequence[Pairs], spans: Sequence[Span]) -> Message:
        return encoded(blocks, spans, self.values, self.note)

    def opened(self, data: Bytes, spans: Sequence[Span]) -> list[Pairs]:
        """The blocks of a message; its note is heard."""
        blocks, note = decode(data, spans)
        if note is not None:
            self.note = note if self.note is None else min(note, self.note)
        return blocks

    def most_bytes(self, spans: Sequence[Span], pairs: int) -> int:
        return most_bytes(spans, pairs, self.values)


Method = Part[Pairs]
"""a worker's part: the result is the sum, the same pairs at all workers"""


def as_message(numbers: np.ndarray) -> Message:
    """A few numbers that travel as they are."""
    return Message(np.frombuffer(numbers.tobytes(), np.uint8), numbers.size)
