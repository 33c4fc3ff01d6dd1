"""Somebody else's traffic: one connection from one namespace to another, as two processes that do nothing else."""

from __future__ import annotations

import math
import os
import signal
import socket
from collections.abc import Callable

from weft.emulation.namespaces import inside

_PIECE = 1 << 20


def start_flow(source: tuple[int, str], destination: tuple[int, str], nbytes: float) -> list[int]:
    """The processes of a flow of so many bytes, or an endless one; nodes are given as namespace and address."""
    with inside(destination[0]):
        listener = socket.create_server((destination[1], 0), backlog=1)
    with inside(source[0]):
        sender = socket.socket()
        sender.bind((source[1], 0))
    where = listener.getsockname()
    with listener, sender:
        return [_forked(lambda: _receive(listener)), _forked(lambda: _send(sender, where, nbytes))]


def _forked(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        work()
    finally:
        # Whatever happened, this process must not go on as a second one of its parent.
        os._exit(0)


def _receive(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    nothing = bytearray(_PIECE)
    # With MSG_TRUNC the kernel drops the bytes instead of copying them.
    while connection.recv_into(nothing, _PIECE, socket.MSG_TRUNC):
        pass


def _send(sender: socket.socket, where: tuple[str, int], nbytes: float) -> None:
    sender.connect(where)
    piece = os.memfd_create("background")
    os.ftruncate(piece, _PIECE)
    left = nbytes
    while left > 0:
        sent = os.sendfile(sender.fileno(), piece, 0, int(min(left, _PIECE)))
        left -= sent if left < math.inf else 0
    sender.shutdown(socket.SHUT_WR)
    # Until the receiver has read everything and closes.
    sender.recv(1)
