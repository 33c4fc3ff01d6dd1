"""Output of many processes on one stream: whole lines, each behind the rank that wrote it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

Write = Callable[[bytes], None]

_LONGEST_LINE = 1 << 20


def write_all(file: int, data: bytes) -> None:
    """Write everything; where nobody reads any more, nothing."""
    view = memoryview(data)
    with suppress(BrokenPipeError):
        while view:
            view = view[os.write(file, view) :]


class Prefixed:
    """Bytes as they come in, lines as they go out. A line of more than a megabyte is broken."""

    def __init__(self, prefix: str, write: Write) -> None:
        self._prefix = prefix.encode()
        self._write = write
        self._rest = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = b""
        if lines:
            self._write(b"".join(self._prefix + line + b"\n" for line in lines))

    def finish(self) -> None:
        """Write what came without an end of line."""
        if self._rest:
            self.feed(b"\n")
