"""Numbers that are none, in a gradient: all workers raise the same error, and nobody's residuals are touched.

Averaged densely, NaN and infinity would reach everybody's model. Here they could not even be ranked by magnitude, and what is
left over would keep them for ever. So the worker that has one takes part with nothing but a note, which travels with every
message, and in the end everybody knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InputError


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """Where a number that is none was found first: whose gradient, and at which element."""

    rank: int
    index: int


class NotFiniteError(InputError):
    """A gradient has infinite or NaN elements. Residuals are as they were before."""

    def __init__(self, rank: int, index: int, place: str = "") -> None:
        self.rank, self.index = rank, index
        whose = f"the gradient of rank {rank}" if rank >= 0 else "the sum of all ranks' gradients"
        where = f"element {index}" + (f" ({place})" if place else "")
        super().__init__(
            f"{whose} is infinite or NaN at {where}: skip this step, and look for a learning rate that is too high or a "
            "loss scale that overflows"
        )
