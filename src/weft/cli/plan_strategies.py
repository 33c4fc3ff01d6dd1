"""``weft plan --strategy``: which strategy, plan, overlap and compression are predicted to make the fastest steps."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from weft.cli.output import note_first_run, print_json, print_line, print_table, progress
from weft.errors import InputError
from weft.units import format_bytes, format_seconds, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from weft.network import Network
    from weft.strategies.comparison import Comparison, Way

MOST_WIDTH = 72
"""of what is traded, in the table"""


def add_strategy_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strategy", metavar="NAME",
        help="auto: compare all strategies, plans, overlap and compression by the predicted time of a step; or one by its name",
    )  # fmt: skip
    parser.add_argument(
        "--compute",
        metavar="TIME",
        default="100ms",
        help="with --strategy: what a worker computes in a step (default 100ms)",
    )
    parser.add_argument(
        "--density",
        metavar="X",
        type=float,
        default=0.01,
        help="with --strategy: what sparse methods send (default 0.01)",
    )


def run_strategies(args: argparse.Namespace, network: Network) -> None:
    """Compare, and print."""
    name = args.strategy.replace("_", "-")
    compute, seconds = parse_seconds(args.compute), parse_seconds(args.time)
    _check(args, name)
    note_first_run()
    from weft.bounds import bound
    from weft.strategies.comparison import compared

    with progress("comparing") as report:
        found = compared(
            network,
            parse_bytes(args.size),
            compute_seconds=compute,
            density=args.density,
            seconds=seconds,
            progress=report,
        )
    if args.json:
        least = bound(network, found.nbytes).seconds
        print_json({"workers": len(network.active), "bound_seconds": least} | comparison_facts(found, name))
    else:
        print_comparison(found, name)


def _check(args: argparse.Namespace, name: str) -> None:
    from weft.network.check import closest
    from weft.strategies import STRATEGIES

    if name != "auto" and name not in STRATEGIES:
        known = ["auto", *STRATEGIES]
        near = closest(name, known) or f"; there are {', '.join(known)}"
        raise InputError(f"--strategy: there is no strategy {args.strategy!r}{near}")
    if not 0 < args.density <= 1:
        raise InputError(f"--density {args.density:g} is not possible: it must be more than 0 and at most 1")
    if args.output or args.msccl:
        raise InputError(
            "--strategy compares and makes no plan file: leave -o and --msccl out, or leave --strategy out"
        )


def wanted(found: Comparison, name: str) -> list[Way]:
    return [way for way in found.ways if name in ("auto", way.strategy)]


def comparison_facts(found: Comparison, name: str) -> dict[str, Any]:
    """As JSON."""
    chosen = found.chosen if name == "auto" else wanted(found, name)[0]
    return {
        "network": found.network,
        "bytes": found.nbytes,
        "compute_seconds": found.compute_seconds,
        "seconds": chosen.seconds,
        "why": _why(found, name),
        "chosen": asdict(chosen),
        "fastest_exact": asdict(found.fastest_exact),
        "results": [asdict(way) for way in wanted(found, name)],
        "refused": list(found.refused),
    }


def _why(found: Comparison, name: str) -> str:
    """The way that is chosen, and what exact results would cost."""
    chosen, exact = found.chosen if name == "auto" else wanted(found, name)[0], found.fastest_exact
    ahead = (
        ""
        if chosen.exact
        else f"; exact results take {exact.seconds / chosen.seconds:.2f} times as long ({exact.name})"
    )
    return f"{chosen.name}: {format_seconds(chosen.seconds)} a step{ahead}"


def print_comparison(found: Comparison, name: str) -> None:
    compute = format_seconds(found.compute_seconds)
    print_line(f"{format_bytes(found.nbytes)} on {found.network}, {compute} of computing a step; predicted")
    print_line()
    rows = [
        [
            way.strategy, way.plan, way.overlap, way.compress, format_seconds(way.seconds),
            format_seconds(way.communication_seconds), "yes" if way.exact else "no", way.trades[:MOST_WIDTH],
        ]
        for way in wanted(found, name)
    ]  # fmt: skip
    head = ["strategy", "plan", "overlap", "compression", "step", "sent in", "exact", "what it trades"]
    print_table([head, *rows], right=(4, 5))
    print_line()
    if name == "auto":
        print_line(f"chosen      {_why(found, name)}")
    for reason in found.refused:
        print_line(f"refused     {reason}")
