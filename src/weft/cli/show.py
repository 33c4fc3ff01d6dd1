"""A network, a plan or a trace as text, or as a picture with -o FILE.svg, .png or .html.

weft show cluster.yaml                                             the network in words
weft show cluster.yaml --collective rat --size 100MB -o load.svg   links coloured by their load
weft show cluster.yaml --collective rat --picture trees -o rat.png
weft show cluster.yaml --collective rat -o rat.html                everything on one page
weft show trace.json -o timeline.svg
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import add_json, add_network, add_size, collective_of, network_of
from weft.cli.describe import network_facts, network_lines, timeline_lines
from weft.cli.output import note_first_run, print_json, print_line
from weft.errors import InputError
from weft.trace import Trace
from weft.units import format_bytes, format_seconds, parse_bytes

if TYPE_CHECKING:
    from weft.network import Network
    from weft.planning import Plan
    from weft.schedule import Schedule
    from weft.simulation import Simulation

PICTURES = ("network", "trees", "timeline")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network(parser)
    parser.add_argument(
        "--collective", metavar="NAME", help="also simulate this, to show loads, trees and the timeline"
    )
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the collective")
    parser.add_argument("--segments", type=int, default=1, metavar="N", help="cut every chunk into N")
    add_size(parser, default="100MB")
    parser.add_argument(
        "--picture", choices=PICTURES, help="which one, for .svg and .png (default: network; of a trace, its timeline)"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="a picture (.svg, .png) or a page with all of them (.html)"
    )
    parser.add_argument(
        "--width", type=int, default=0, metavar="N", help="of the text, in characters (default: the terminal's)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    shown = _from_json(args.network)
    if shown is not None:
        _show_trace(shown, args) if isinstance(shown, Trace) else _show_plan(shown, args)
        return
    note_first_run()
    network = network_of(args)
    result = _simulated(network, args) if args.collective else None
    if args.output:
        _draw(network, result, args, result.schedule if result else None, args.picture or "network")
    if args.json:
        print_json((_result_facts(result, args) if result else {}) | network_facts(network))
    elif not args.output:
        for line in network_lines(network):
            print_line(line)
        if result is not None:
            print_line()
            print_line(
                f"{args.collective} of {format_bytes(result.nbytes)}: {format_seconds(result.seconds)}; {result.bottleneck}"
            )
            for line in timeline_lines(result.trace, _width(args)):
                print_line(line)


def _result_facts(result: Simulation, args: argparse.Namespace) -> dict[str, Any]:
    from weft.bounds import bound
    from weft.cli.simulate import facts

    least = bound(result.network, result.nbytes)
    return facts(result, least, args.segments) | {"link_utilisation": result.utilisation}


def _from_json(text: str) -> Trace | Plan | None:
    """The trace or the plan of a file, if it is one, whatever its name."""
    path = Path(text)
    if path.suffix != ".json" and not path.is_file():
        return None
    try:
        content = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if '"weft_plan"' in content[:100]:
        from weft.planning.files import plan_of

        return plan_of(content, str(path))
    if path.suffix == ".json" or '"weft_trace"' in content[-1000:]:
        return Trace.parse(content)
    return None


def _show_plan(plan: Plan, args: argparse.Namespace) -> None:
    from weft.cli.plan import plan_facts, print_plan

    if args.output:
        from weft.simulation import simulate

        result = simulate(plan.schedule, plan.network, plan.nbytes)
        _draw(plan.network, result, args, plan.whole, args.picture or "trees")
    if args.json:
        print_json(plan_facts(plan))
    elif not args.output:
        print_plan(plan)


def _width(args: argparse.Namespace) -> int:
    import shutil

    return max(40, args.width or shutil.get_terminal_size().columns)


def _simulated(network: Network, args: argparse.Namespace) -> Simulation:
    from weft.proof import verify
    from weft.simulation import simulate

    schedule = collective_of(args.collective, args.option, network).sliced(args.segments)
    verify(schedule)
    return simulate(schedule, network, parse_bytes(args.size))


def _show_trace(trace: Trace, args: argparse.Namespace) -> None:
    if args.output:
        from weft.files import write_atomically
        from weft.report.page import Section, html_page
        from weft.report.save import save_figure, svg_text
        from weft.report.timeline_picture import timeline_figure

        path = Path(args.output)
        if path.suffix == ".html":
            section = Section("Timeline", svg=svg_text(timeline_figure(trace)))
            write_atomically(path, html_page(trace.title, [section]))
        else:
            save_figure(timeline_figure(trace), path)
    if args.json:
        print_json({"title": trace.title, "seconds": trace.seconds, "spans": len(trace.spans)})
    elif not args.output:
        print_line(f"{trace.title}: {len(trace.spans)} spans, {format_seconds(trace.seconds)}")
        for line in timeline_lines(trace, _width(args)):
            print_line(line)


def _draw(
    network: Network, result: Simulation | None, args: argparse.Namespace, trees: Schedule | None, kind: str
) -> None:
    from weft.files import write_atomically
    from weft.report.network_page import network_page
    from weft.report.network_picture import network_figure
    from weft.report.save import save_figure
    from weft.report.timeline_picture import timeline_figure
    from weft.report.trees_picture import trees_figure

    path = Path(args.output)
    if path.suffix == ".html":
        write_atomically(path, network_page(network, result, trees))
    elif kind == "network":
        title = (
            network.name
            if result is None
            else f"{result.schedule.name} on {network.name}, {format_seconds(result.seconds)}"
        )
        save_figure(network_figure(network, None if result is None else result.utilisation, title), path)
    elif result is None or trees is None:
        raise InputError(f"a picture of {kind} needs a collective: add --collective NAME")
    elif kind == "trees":
        save_figure(trees_figure(trees, network), path)
    else:
        save_figure(timeline_figure(result.trace), path)
