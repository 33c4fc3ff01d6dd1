"""How long one collective takes on a network, which links are busy, and what holds it up.

weft simulate cluster.yaml --collective rat --size 100MB
weft simulate two_tier:racks=4,oversubscription=4 --collective ring --size 25MB --pause a0@0s..5ms --trace ring.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import (
    add_conditions,
    add_json,
    add_network,
    add_simulator,
    add_size,
    collective_of,
    conditions_of,
    network_of,
)
from weft.cli.output import note_first_run, print_json, print_line, print_table, progress
from weft.errors import InputError
from weft.units import format_bytes, format_seconds, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from weft.bounds import Bound
    from weft.simulation import Simulation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network(parser)
    parser.add_argument(
        "--collective", metavar="NAME", help="such as ring, rat or parameter-server; weft compare lists all"
    )
    parser.add_argument(
        "--schedule", metavar="FILE", help="simulate a schedule from a text file instead of a collective"
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the collective, such as servers=1 or k=4",
    )
    parser.add_argument(
        "--segments", type=int, default=1, metavar="N", help="cut the tensor into N to pipeline it (default 1)"
    )
    add_size(parser)
    add_conditions(parser)
    add_simulator(parser)
    parser.add_argument(
        "--trace", metavar="FILE", help="write the timeline as a trace for Chrome, Perfetto and weft show"
    )
    parser.add_argument("--save-schedule", metavar="FILE", help="write the schedule as text")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    from weft.bounds import bound
    from weft.files import write_atomically
    from weft.proof import verify
    from weft.schedule import Schedule
    from weft.simulation import simulate

    nbytes = parse_bytes(args.size)
    note_first_run()
    network = network_of(args)
    if (args.collective is None) == (args.schedule is None):
        raise InputError("give either --collective NAME or --schedule FILE")
    if args.schedule:
        schedule = Schedule.parse(_read(Path(args.schedule)))
    else:
        schedule = collective_of(args.collective, args.option, network)
    schedule = schedule.sliced(args.segments)
    verify(schedule)
    with progress("simulating") as report:
        result = simulate(
            schedule, network, nbytes, conditions_of(args), channel=args.channel, rtt_weights=args.rtt_weights,
            add_seconds_per_byte=parse_seconds(args.add_cost) / 1e9, progress=report,
        )  # fmt: skip
    if args.trace:
        result.trace.save(Path(args.trace))
    if args.save_schedule:
        write_atomically(Path(args.save_schedule), schedule.to_text())
    least = bound(network, nbytes)
    if args.json:
        print_json(facts(result, least, args.segments) | {"bottleneck": result.bottleneck, "bound_why": least.why})
    else:
        _print(result, least)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error


def facts(result: Simulation, least: Bound, segments: int) -> dict[str, Any]:
    """The fields that every JSON result has."""
    return {
        "network": result.network.name,
        "collective": result.schedule.name.replace("_", "-"),
        "bytes": int(result.nbytes),
        "workers": len(result.network.active),
        "seconds": result.seconds,
        "bound_seconds": least.seconds,
        "transfers": len(result.schedule),
        "chunks": len(result.schedule.chunk_weights),
        "segments": segments,
        "depth": result.schedule.depth,
        "link_bytes": {name: round(amount) for name, amount in result.link_bytes.items()},
        "held_up_by": result.held_up_by,
    }


def percent_of_bound(seconds: float, least: float) -> str:
    return f"{least / seconds:.1%}" if seconds > 0 else "100%"


def _print(result: Simulation, least: Bound) -> None:
    name = result.schedule.name.replace("_", "-")
    print_line(
        f"{name} of {format_bytes(result.nbytes)} on {result.network.name} ({len(result.network.active)} workers)"
    )
    print_line(
        f"time        {format_seconds(result.seconds)}, {percent_of_bound(result.seconds, least.seconds)} of the bound"
    )
    print_line(f"bound       {format_seconds(least.seconds)}: {least.why}")
    chunks = len(result.schedule.chunk_weights)
    print_line(f"transfers   {len(result.schedule)} of {chunks} chunks, {result.schedule.depth} dependent steps")
    print_line(f"held up by  {result.bottleneck}")
    busiest = sorted(result.utilisation.items(), key=lambda item: -item[1])[:5]
    if busiest:
        print_line()
        rows = [[link, format_bytes(result.link_bytes[link]), f"{busy:.0%}"] for link, busy in busiest]
        print_table([["busiest links", "bytes", "busy"], *rows], right=(1, 2))
