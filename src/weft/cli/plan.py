"""The best schedule for a network and a size: predicted time, the bound, and why it was chosen.

weft plan cluster.yaml --size 100MB
weft plan cluster.yaml --size 100MB -o plan.json        then: weft show plan.json -o trees.svg
weft plan machines:machines=2,gpus=8,inside=dgx1 --size 100MB --msccl plan.xml
weft plan cluster.yaml --size 25MB --strategy auto      which strategy, plan, overlap and compression, and what they trade
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import add_json, add_network, add_size, network_of
from weft.cli.output import note_first_run, print_json, print_line, print_table, progress
from weft.cli.plan_strategies import add_strategy_arguments, run_strategies
from weft.errors import InputError
from weft.units import format_bytes, format_seconds, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from weft.planning import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_network(parser)
    add_size(parser)
    parser.add_argument("-o", "--output", metavar="PLAN", help="write the plan to a file")
    parser.add_argument("--time", metavar="TIME", default="10s", help="how long to search at most (default 10s)")
    parser.add_argument("--msccl", metavar="FILE", help="also write the schedule as MSCCL XML, for MSCCL and RCCL")
    add_strategy_arguments(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    nbytes = parse_bytes(args.size)
    seconds = parse_seconds(args.time)
    network = network_of(args)
    if seconds <= 0:
        raise InputError("--time must be more than 0")
    if args.strategy is not None:
        run_strategies(args, network)
        return
    note_first_run()
    from weft.planning import plan

    with progress("planning") as report:
        found = plan(network, nbytes, seconds=seconds, progress=report)
    if args.output:
        found.save(args.output)
    if args.msccl:
        from weft.files import write_atomically
        from weft.msccl import to_msccl

        # Not the segments: MSCCL pipelines a document by itself.
        write_atomically(Path(args.msccl), to_msccl(found.whole, name=f"weft-{found.collective}"))
    if args.json:
        print_json(plan_facts(found))
    else:
        print_plan(found)


def link_bytes(plan: Plan) -> dict[str, int]:
    """What every link carries that carries anything."""
    from weft.simulation import link_loads

    loads = link_loads(plan.schedule, plan.network, plan.nbytes).tolist()
    return {link.name: round(load) for link, load in zip(plan.network.links, loads, strict=True) if load > 0}


def plan_facts(plan: Plan) -> dict[str, Any]:
    """The plan as JSON; of its trees, the heaviest."""
    from weft.planning.files import trees_of

    return {
        "network": plan.network.name,
        "collective": plan.collective,
        "segments": plan.segments,
        "bytes": plan.nbytes,
        "workers": len(plan.network.active),
        "seconds": plan.seconds,
        "bound_seconds": plan.bound,
        "transfers": len(plan.schedule),
        "chunks": len(plan.schedule.chunk_weights),
        "depth": plan.schedule.depth,
        "digest": plan.digest,
        "link_bytes": link_bytes(plan),
        "why": plan.why,
        "others": [{"collective": name, "seconds": seconds} for name, seconds in plan.others],
        "trees": trees_of(plan),
    }


def print_plan(plan: Plan) -> None:
    share = f", {plan.bound / plan.seconds:.1%} of the bound" if plan.seconds > 0 else ""
    print_line(f"{format_bytes(plan.nbytes)} on {plan.network.name} ({len(plan.network.active)} workers)")
    size = f"{len(plan.schedule)} transfers, {plan.schedule.depth} dependent steps"
    pieces = f"{plan.segments} segment{'s' * (plan.segments > 1)}"
    print_line(f"plan        {plan.collective}, {pieces}, {size}")
    print_line(f"time        {format_seconds(plan.seconds)}{share}")
    print_line(f"bound       {format_seconds(plan.bound)}")
    print_line(f"why         {plan.why}")
    print_line(f"digest      {plan.digest[:16]}")
    if plan.others:
        print_line()
        rows = [
            [name, format_seconds(seconds), f"{seconds / plan.seconds - 1:+.1%}"] for name, seconds in plan.others[:6]
        ]
        print_table([["other candidates", "time", "slower"], *rows], right=(1, 2))
