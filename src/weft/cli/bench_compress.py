"""``weft bench --compress``: compressed all-reduces against the backend's own, in one run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import read_network
from weft.cli.output import print_json, print_table, progress
from weft.errors import InputError
from weft.network.check import closest
from weft.sparse import METHODS
from weft.sparse.quota import check_density
from weft.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from weft.torch.compress_measuring import CompressMeasured

BACKEND = "backend"
ROUNDED = ("fp16", "bf16")


def run_compressed(args: argparse.Namespace, sizes: list[int]) -> None:
    """Measure on every rank, and print on rank 0."""
    names = [name.strip().replace("_", "-") for name in args.compress.split(",")]
    known = [*METHODS, *ROUNDED]
    for name in names:
        if name not in known:
            near = closest(name, known) or f"; there are {', '.join(known)}"
            raise InputError(f'--compress: there is no method "{name}"{near}')
    check_density(args.density)
    if args.plan or args.collective:
        raise InputError("--compress measures no plans: leave --plan and --collective out")
    from weft.runtime.joining import joined
    from weft.torch import communicator

    with joined() as rank:
        found = _measured(args, names, sizes, rank == 0)
        if rank == 0:
            _print(found, args, communicator().transport.size)


def _measured(args: argparse.Namespace, names: list[str], sizes: list[int], speaks: bool) -> list[CompressMeasured]:
    """All ways for every size, the backend's own first."""
    from weft.torch.compress_measuring import measured_methods

    network = read_network(args.network) if args.network else None
    found = []
    with progress("measuring") as report:
        for number, size in enumerate(sizes):
            if speaks:
                report(number, len(sizes))
            found += measured_methods(names, args.density, size, args.repeat, network)
    return found


def _print(found: list[CompressMeasured], args: argparse.Namespace, workers: int) -> None:
    dense = {m.nbytes: m.seconds for m in found if m.name == BACKEND}
    if args.json:
        results = [_facts(m, dense[m.nbytes]) for m in found if m.name != BACKEND]
        print_json({"workers": workers, "density": args.density, "results": results})
        return
    head = ["size", "method", "time", "selecting", "messages", "sent by a rank", "faster than the backend"]
    print_table([head] + [_row(m, dense[m.nbytes]) for m in found], right=(0, 2, 3, 4, 5, 6))


def _row(m: CompressMeasured, dense: float) -> list[str]:
    parts = ["" if part is None else format_seconds(part) for part in (m.selecting_seconds, m.wire_seconds)]
    sent = "" if m.bytes_sent is None else format_bytes(m.bytes_sent)
    faster = "" if m.name == BACKEND else f"{dense / m.seconds:.2f}x"
    return [format_bytes(m.nbytes), m.name, format_seconds(m.seconds), *parts, sent, faster]


def _facts(m: CompressMeasured, dense: float) -> dict[str, Any]:
    return {
        "bytes": m.nbytes,
        "compress": m.name,
        "seconds": m.seconds,
        "weft_seconds": m.seconds,
        "selecting_seconds": m.selecting_seconds,
        "wire_seconds": m.wire_seconds,
        "bytes_sent": m.bytes_sent,
        "backend_seconds": dense,
        "speedup": dense / m.seconds,
        "times": list(m.times),
    }
