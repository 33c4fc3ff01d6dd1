"""Reduce-scatter inside every group, then between the groups, and so on outwards; then gather back inwards.

A group's members may hold different numbers of workers: wherever two of them cut the tensor at different places, the
pieces between the cuts are reduced on their own, each by the workers that hold it.
"""

from __future__ import annotations

from fractions import Fraction

from weft.collectives.grid import WHOLE, Grid, Interval, intervals, parts
from weft.schedule import Schedule, Transfer

Group = int | tuple["Group", ...]
"""A rank, or several groups."""


def scatter_gather(workers: int, whole: Group, participants: tuple[int, ...], name: str) -> Schedule:
    """The schedule of nested groups: rings among the members of every group, from the inside out and back."""
    grid = Grid(_cuts(whole))
    reduces: list[Transfer] = []
    copies: list[Transfer] = []
    _owners(whole, grid, reduces, copies)
    return Schedule.of_transfers(workers, grid.weights, reduces + copies[::-1], participants, name)


def _cuts(group: Group) -> list[Fraction]:
    """Where a group cuts the tensor: where its members do, and each piece again into as many parts as it has members."""
    if isinstance(group, int):
        return list(WHOLE)
    cuts = sorted({cut for member in group for cut in _cuts(member)})
    return sorted({cut for piece in intervals(cuts) for part in parts(piece, len(group)) for cut in part})


def _owners(group: Group, grid: Grid, reduces: list[Transfer], copies: list[Transfer]) -> dict[Interval, int]:
    """Who holds which piece when a group has been reduced. ``copies`` is filled in reverse: the last copy comes first."""
    if isinstance(group, int):
        return {WHOLE: group}
    owned = [_owners(member, grid, reduces, copies) for member in group]
    n = len(group)
    cuts = sorted({cut for pieces in owned for piece in pieces for cut in piece})
    holders = {piece: [_holder(pieces, piece) for pieces in owned] for piece in intervals(cuts)}
    divided = {piece: parts(piece, n) for piece in holders}
    for step in range(n - 1):
        for piece, ranks in holders.items():
            for i in range(n):
                first, span = grid.chunks(divided[piece][(i - step) % n])
                reduces.append(Transfer(ranks[i], ranks[(i + 1) % n], first, "reduce", span))
    for step in reversed(range(n - 1)):
        for piece, ranks in reversed(holders.items()):
            for i in reversed(range(n)):
                first, span = grid.chunks(divided[piece][(i + 1 - step) % n])
                copies.append(Transfer(ranks[i], ranks[(i + 1) % n], first, "copy", span))
    return {divided[piece][part]: ranks[(part - 1) % n] for piece, ranks in holders.items() for part in range(n)}


def _holder(pieces: dict[Interval, int], part: Interval) -> int:
    return next(rank for (start, end), rank in pieces.items() if start <= part[0] and part[1] <= end)
