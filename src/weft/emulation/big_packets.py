"""Packets of IPv4 beyond 64 KB that the kernel handles as one (since 6.3); told by netlink, which older iproute2 does not do."""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys

LEGACY = 65_536
"""What every kernel has."""
LARGEST = 524_280
"""What a veth takes."""

_SET_LINK, _ERROR = 19, 2
_REQUEST, _ACKNOWLEDGE = 1, 4
_GSO_IPV4_MAX_SIZE = 63
_HEADER, _LINK, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxHiII"), struct.Struct("=HHI")


def allow_packets(device: str, size: int) -> bool:
    """Let a device of this network namespace take packets of so many bytes; False where the kernel refuses.."""
    body = _LINK.pack(socket.AF_UNSPEC, 0, socket.if_nametoindex(device), 0, 0)
    body += _ATTRIBUTE.pack(_ATTRIBUTE.size, _GSO_IPV4_MAX_SIZE, min(size, LARGEST))
    head = _HEADER.pack(_HEADER.size + len(body), _SET_LINK, _REQUEST | _ACKNOWLEDGE, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.sendto(head + body, (0, 0))
        answer = kernel.recv(65_536)
    _, kind, *_ = _HEADER.unpack_from(answer)
    failed = int.from_bytes(answer[_HEADER.size : _HEADER.size + 4], sys.byteorder, signed=True)
    if kind != _ERROR:
        raise OSError(errno.EPROTO, f"the kernel answered with a message of kind {kind}")
    if failed not in (0, -errno.EINVAL, -errno.EOPNOTSUPP, -errno.ERANGE):
        raise OSError(-failed, f"{device}: {os.strerror(-failed)}")
    return not failed
