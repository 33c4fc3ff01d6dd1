"""Every collective side by side on one network, with the bound that none can beat.

A collective gains from cutting the tensor into segments that follow each other like in a pipeline, trees most of all. With
--segments auto each is tried whole and in 2, 4, 16 and 64 segments (up to 20,000 transfers), and its best is shown.

    weft compare cluster.yaml --size 100MB
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from weft.cli.arguments import add_conditions, add_json, add_network, add_simulator, add_size, conditions_of, network_of
from weft.cli.output import note_first_run, print_json, print_line, print_table, progress
from weft.cli.simulate import facts, percent_of_bound
from weft.errors import InputError
from weft.units import format_bytes, format_seconds, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.network import Network
    from weft.schedule import Schedule
    from weft.simulation import Simulation

SEGMENTS = (1, 2, 4, 16, 64)
MOST_TRANSFERS = 20_000
"""Up to so many, segments are tried."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network(parser)
    add_size(parser, default="100MB")
    parser.add_argument("--collectives", metavar="NAME,NAME,...", help="only these (default: all)")
    parser.add_argument(
        "--segments", default="auto", metavar="N|auto", help="cut every chunk into N (default auto, see above)"
    )
    add_conditions(parser)
    add_simulator(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    from weft.bounds import bound
    from weft.proof import verify
    from weft.simulation import simulate

    nbytes = parse_bytes(args.size)
    network = network_of(args)
    conditions = conditions_of(args)
    note_first_run()
    least = bound(network, nbytes)
    results: list[tuple[Simulation, int]] = []

    def simulated(schedule: Schedule) -> Simulation:
        verify(schedule)
        return simulate(
            schedule, network, nbytes, conditions, channel=args.channel, rtt_weights=args.rtt_weights,
            add_seconds_per_byte=parse_seconds(args.add_cost) / 1e9,
        )  # fmt: skip

    chosen = _collectives(args.collectives)
    begun = time.monotonic()
    with progress("comparing") as report:
        for done, collective in enumerate(chosen.values()):
            report(done, len(chosen))
            schedule = collective(network)
            tried = [(simulated(schedule.sliced(n)), n) for n in _segments(args.segments, schedule)]
            best = min(result.seconds for result, _ in tried)
            # The fewest segments that are as good as the best: more of them only mean more messages.
            results.append(next(pair for pair in tried if pair[0].seconds <= 1.002 * best))
    results.sort(key=lambda pair: pair[0].seconds)
    if args.json:
        print_json({
            "network": network.name, "bytes": nbytes, "workers": len(network.active), "bound_seconds": least.seconds,
            "bound_why": least.why, "results": [facts(result, least, n) for result, n in results],
        })  # fmt: skip
        return
    print_line(f"{format_bytes(nbytes)} on {network.name}: {len(network.active)} workers, {_regions(network)}")
    print_line(f"bound {format_seconds(least.seconds)}: {least.why}")
    print_line()
    rows = [["collective", "time", "of bound", "steps", "transfers", "segments", "held up by"]]
    for result, n in results:
        name = result.schedule.name.replace("_", "-")
        share = percent_of_bound(result.seconds, least.seconds)
        numbers = [str(result.schedule.depth), str(len(result.schedule)), str(n)]
        rows.append([name, format_seconds(result.seconds), share, *numbers, _first_cause(result)])
    print_table(rows, right=(1, 2, 3, 4, 5))
    print_line()
    print_line(f"simulated in {time.monotonic() - begun:.2f} s; every schedule proved")


def _collectives(names: str | None) -> dict[str, Callable[..., Schedule]]:
    from weft.collectives import COLLECTIVES
    from weft.network.check import closest

    if names is None:
        return dict(COLLECTIVES)
    chosen: dict[str, Callable[..., Schedule]] = {}
    for name in (part.strip().replace("_", "-") for part in names.split(",")):
        if name not in COLLECTIVES:
            raise InputError(
                f"there is no collective {name!r}{closest(name, list(COLLECTIVES))}; there are {', '.join(COLLECTIVES)}"
            )
        chosen[name] = COLLECTIVES[name]
    return chosen


def _segments(text: str, schedule: Schedule) -> tuple[int, ...]:
    if text == "auto":
        return tuple(n for n in SEGMENTS if n == 1 or 0 < n * len(schedule) <= MOST_TRANSFERS)
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{text!r} segments are not possible: give a number of at least 1, or auto")
    return (int(text),)


def _regions(network: Network) -> str:
    tree = network.region_tree
    if not tree.regions:
        return "no regions"
    counts = [sum(len(group) > 1 for group in tree.at_level(level)) for level in range(tree.levels)]
    return f"{' > '.join(map(str, counts))} regions" + (" (inferred)" if network.regions_inferred else "")


def _first_cause(result: Simulation) -> str:
    for name, share in result.held_up_by.items():
        return f"{name} {share:.0%}"
    return "-"
