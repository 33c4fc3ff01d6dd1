"""What the executor needs from whatever moves the bytes: two methods, and a board for the few words that go beside them.

The contract of a transport:

- ``send`` and ``receive`` return at once. The tensors are contiguous, stay alive, and are not written (sent) or not
  touched (received) until the ``Pending`` has been waited for.
- A channel is a pair of ranks, a direction and a tag. The n-th ``receive`` of a channel gets the n-th ``send``, whatever
  other channels do. A sender may be held back until its message is expected.
- Both are called from several threads, but never for the same channel at the same time.
- ``Pending.wait`` returns when the message has left (the tensor may be written again) or arrived. It raises
  ``TransportError`` when that cannot happen any more, or has not after so many seconds. Then the transport is lost.
- ``abort`` makes every wait on this transport raise soon, here and at the peers. It is called once, after a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from weft.errors import ExecutionError


class TransportError(ExecutionError):
    """A message could not be sent or received: why, and to or from whom."""

    def __init__(self, peer: int, reason: str, late: bool = False) -> None:
        self.peer, self.reason, self.late = peer, reason, late
        super().__init__(f"{reason} (rank {peer})")


class Pending(Protocol):
    """A message on its way."""

    def wait(self, seconds: float) -> None:
        """Return when it has left or arrived; raise ``TransportError`` if it does not within so many seconds."""


class Board(Protocol):
    """Where ranks leave each other short notes; used to agree before the first message, and to explain failures.

    A board may be lost together with a rank: then its methods raise or block, and callers give up on them in time.
    """

    @property
    def keeper(self) -> int | None:
        """The rank whose process keeps the board, if it is one of them."""

    def post(self, key: str, text: str) -> None:
        """Put a note up for everybody."""

    def read(self, keys: Sequence[str]) -> list[str | None]:
        """The notes under these keys, None where there is none yet."""


class Transport(Protocol):
    """One rank's end of what moves the bytes."""

    @property
    def rank(self) -> int:
        """Who we are."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    @property
    def board(self) -> Board:
        """The board of exactly these ranks; empty at first."""

    @property
    def keeps_tags_apart(self) -> bool:
        """Whether channels of different tags are independent; if not, one schedule is executed after the other."""

    def send(self, tensor: torch.Tensor, peer: int, tag: int) -> Pending:
        """Send a tensor's elements."""

    def receive(self, tensor: torch.Tensor, peer: int, tag: int) -> Pending:
        """Fill a tensor with the next message."""

    def abort(self) -> None:
        """Make every wait raise soon, here and at the peers."""
