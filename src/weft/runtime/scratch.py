"""Memory for messages that cannot be received in place: taken, given back, and reused by the next execution.

An execution takes, for every peer that sends to it, two of that peer's largest messages or ``AHEAD`` bytes, whichever is
more: so much can arrive while something else is being added. Only messages that are received directly into the
tensor need none. Tensors that are not contiguous, and those of ranks that only relay, take their own size in addition.
"""

from __future__ import annotations

from threading import Lock

import torch

AHEAD = 8 << 20
"""Bytes of small messages that a peer may send ahead."""


class Scratch:
    """Buffers of bytes that are not in use. There are never more than were once in use together."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._free: list[torch.Tensor] = []
        self.nbytes = 0
        """of all buffers, in use or not"""

    def take(self, nbytes: int, device: torch.device) -> torch.Tensor:
        """A buffer of at least so many bytes: the smallest that is free, or a new one in place of one that is too small."""
        with self._lock:
            fitting = [b for b in self._free if b.device == device]
            large = [b for b in fitting if b.nbytes >= nbytes]
            chosen = min(large or fitting, key=lambda b: b.nbytes, default=None)
            if chosen is not None:
                self._free = [b for b in self._free if b is not chosen]
                if large:
                    return chosen
                self.nbytes -= chosen.nbytes
            self.nbytes += nbytes
        return torch.empty(nbytes, dtype=torch.uint8, device=device)

    def give_back(self, buffer: torch.Tensor) -> None:
        with self._lock:
            self._free.append(buffer)


def slots_for(largest: int, messages: int) -> int:
    """How many buffers of the largest message's size a channel gets."""
    return min(messages, max(2, AHEAD // max(largest, 1)))
