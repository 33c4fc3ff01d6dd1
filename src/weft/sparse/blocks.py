"""Blocks: a vector cut into as many equal parts as there are workers; the last ones may be shorter, or empty."""

from __future__ import annotations

from dataclasses import dataclass

from weft.sparse.wire import Span


@dataclass(frozen=True, slots=True)
class Blocks:
    length: int
    count: int

    @property
    def nominal(self) -> int:
        """Elements of a block that is not at the end."""
        return -(-self.length // self.count)

    def span(self, block: int) -> Span:
        """Blocks are counted around: the one after the last is the first."""
        block %= self.count
        return min(block * self.nominal, self.length), min((block + 1) * self.nominal, self.length)

    def spans(self, first: int, count: int) -> list[Span]:
        return [self.span(block) for block in range(first, first + count)]


def bags(count: int) -> list[tuple[int, int]]:
    """The rounds of a reduce-scatter among so many: how far each sends, and how many blocks, beginning with its target's."""
    gap = 1 << (count - 1).bit_length() >> 1
    found = [(gap, count - gap)] if gap else []
    while gap > 1:
        gap //= 2
        found.append((gap, gap))
    return found
