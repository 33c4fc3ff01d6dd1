"""Namespaces of the kernel, as files that stay open: when the process that holds them ends, they are gone."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NEW_NETWORK = 0x40000000
_BIND = 4096

_libc = ctypes.CDLL(None, use_errno=True)

SETTINGS = {
    "net/ipv4/ip_forward": "1",
    # Routes there and back may differ, so packets do arrive where no answer would be sent.
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/conf/all/send_redirects": "0",
    "net/ipv4/conf/default/send_redirects": "0",
    # Where routes are split, connections are spread by their ports, not only by their addresses.
    "net/ipv4/fib_multipath_hash_policy": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
}


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def new_network(seed: int) -> int:
    """A new network namespace that forwards packets, as an open file."""
    with _returning():
        _checked(_libc.unshare(_NEW_NETWORK), "cannot make a network namespace")
        # With one seed for all, switches of the second tier would repeat the choices of the first.
        for name, value in (SETTINGS | {"net/ipv4/fib_multipath_hash_seed": str(seed)}).items():
            # A kernel may lack a setting, for example all of IPv6, without harm.
            with suppress(FileNotFoundError):
                Path("/proc/sys", name).write_text(value)
        return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def inside(network: int) -> Iterator[None]:
    """Processes and sockets that are made here belong to this network namespace."""
    with _returning():
        _checked(_libc.setns(network, _NEW_NETWORK), "cannot enter a network namespace")
        yield


@contextmanager
def _returning() -> Iterator[None]:
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _checked(_libc.setns(home, _NEW_NETWORK), "cannot leave a network namespace")
        os.close(home)


def path_of(network: int) -> str:
    """Where other processes find an open namespace."""
    # /proc may be that of the process namespace outside, in which we have another number.
    return f"/proc/{Path('/proc/self').readlink()}/fd/{network}"


def mount_processes() -> None:
    """Let /proc show the processes of this namespace."""
    # Some containers forbid it. Then processes see the numbers of the processes outside, which is no harm to most.
    with suppress(OSError):
        mount("proc", "/proc", "proc")


def mount(source: str, target: str, kind: str = "", *, bind: bool = False) -> None:
    """Mount a file system, or a file over another, in this mount namespace."""
    flags = _BIND if bind else 0
    found = _libc.mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), None)
    _checked(found, f"cannot mount {source} on {target}")
