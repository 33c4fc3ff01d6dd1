"""Measured all-reduces on this cluster: a plan against the bound and against the backend's own all-reduce, in one run.

weft emulate cluster.yaml -- weft bench --network cluster.yaml --size 25MB
torchrun --nproc-per-node 4 -m weft bench --size 1MB,25MB --repeat 5
torchrun --nproc-per-node 4 -m weft bench --size 25MB --compress spardl,fp16 --density 0.01

Every rank runs it, under torchrun, weft emulate or anything that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; rank 0
prints. Without a network file the network is measured first (weft probe). With --compress no plans are made: compressed
all-reduces are measured against the backend's own, selecting and messages apart.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from weft.cli.arguments import NETWORK_HELP, add_json, collective_of, read_network
from weft.cli.output import print_json, print_line, print_table, progress
from weft.errors import InputError
from weft.units import format_seconds, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from weft.network import Network
    from weft.planning import Costs, Plan
    from weft.runtime.choosing import Tried
    from weft.runtime.measuring import Measured


CANDIDATES, SPARE = 4, 4
"""Plans that are tried, and more that are where those take longer than predicted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", metavar="SIZE,...", default="1MB,25MB", help="of the tensors (default 1MB,25MB)")
    parser.add_argument("--repeat", metavar="N", type=int, default=5, help="turns that count (default 5)")
    parser.add_argument("--network", metavar="NETWORK", help=f"{NETWORK_HELP}; measured if not given")
    parser.add_argument("--plan", metavar="PLAN", help="execute this plan file instead of planning")
    parser.add_argument("--collective", metavar="NAME", help="execute this collective instead of the best plan")
    parser.add_argument("--time", metavar="TIME", default="10s", help="how long to plan at most (default 10s)")
    parser.add_argument(
        "--candidates", metavar="N", type=int, default=CANDIDATES,
        help=f"try so many plans that are predicted to be about equally fast, others if these take longer than "
        f"that, and take the fastest (default {CANDIDATES}; 1 takes the best by prediction)",
    )  # fmt: skip
    parser.add_argument(
        "--compress", metavar="NAME,...", help="instead of plans: spardl, topk-a, topk-dsa, gtopk, ok-topk, fp16, bf16"
    )
    parser.add_argument(
        "--density", metavar="X", type=float, default=0.01, help="what sparse methods send (default 0.01)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    sizes = [parse_bytes(size) for size in args.size.split(",")]
    seconds = parse_seconds(args.time)
    if args.repeat < 1 or args.candidates < 1 or seconds <= 0:
        raise InputError("--repeat and --candidates must be at least 1 and --time more than 0")
    if args.plan and (args.collective or args.network):
        raise InputError("--plan brings its own network and schedule: leave --network and --collective out")
    if args.compress:
        from weft.cli.bench_compress import run_compressed

        run_compressed(args, sizes)
        return
    from weft.runtime.joining import joined

    with joined() as rank:
        found = _measured(args, sizes, seconds, rank == 0)
        if rank == 0:
            _print(found, args.json)


def _measured(args: argparse.Namespace, sizes: list[int], seconds: float, speaks: bool) -> list[Measured]:
    import weft.torch as wt
    from weft.planning import Plan
    from weft.runtime.choosing import paced, refined, tried
    from weft.runtime.costs import measured_costs
    from weft.runtime.measuring import measured
    from weft.torch.choice import Choice

    us = wt.communicator()
    network = None if args.plan else _network(args, us.transport.size)
    costs = measured_costs(us, network=network)
    found = []
    with progress("measuring") as report:
        for number, size in enumerate(sizes):

            def turns(done: int, whole: int, number: int = number) -> None:
                if speaks:
                    report(number * whole + done, len(sizes) * whole)

            turns(0, args.repeat)
            text = us.from_rank_0(
                lambda size=size: Choice.of(_plans(args, network, size, seconds, costs)).to_text(),  # type: ignore[misc]
                60 + 10 * seconds,
            )
            plans = [way for _, way in Choice.parse(text).ways]
            best, *others = tried(us, [way for way in plans if isinstance(way, Plan)], at_once=args.candidates)
            best = refined(us, paced(us, best, costs), costs)
            plan = replace(best.plan, why=_why(best, others))
            found.append(measured(us, plan, args.repeat, progress=turns, paced=best.paced))
    return found


def _why(best: Tried, others: list[Tried]) -> str:
    """The plan's own reasons, and what was measured."""
    from weft.torch.choice import name_of

    why = best.plan.why
    if others:
        named = [f"{format_seconds(t.seconds)} ({name_of(t.plan)})" for t in (best, *others)]
        why += f" Tried on this network: {', '.join(named)}."
    if best.paced:
        why += " It is faster if connections send a little slower than their links allow, so they do."
    return why


def _network(args: argparse.Namespace, ranks: int) -> Network:
    """The network among the workers that run: an inactive one is only a switch to them."""
    if args.network:
        network = read_network(args.network)
        active = [network.workers[rank] for rank in network.active]
        network = (
            replace(
                network,
                workers=tuple(active),
                switches=(*network.switches, *network.inactive),
                inactive=(),
                regions=None,
            )
            if network.inactive
            else network
        )
        if len(network.workers) != ranks:
            raise InputError(f"{network.name!r} has {len(network.workers)} active workers, but {ranks} ranks run")
        return network
    from weft.runtime.probe import probe

    return probe().network


def _plans(args: argparse.Namespace, network: Network | None, size: int, seconds: float, costs: Costs) -> list[Plan]:
    """On rank 0: the plan that is to be executed, or several of which the fastest is."""
    from weft.bounds import bound
    from weft.planning import Plan, shortlist
    from weft.simulation import simulate

    if network is None:
        given = Plan.load(args.plan)
        seconds = simulate(given.schedule, given.network, size, **asdict(costs)).seconds
        return [replace(given, nbytes=size, seconds=seconds, bound=bound(given.network, size).seconds)]
    if args.collective:
        schedule = collective_of(args.collective, [], network)
        least = bound(network, size)
        predicted = simulate(schedule, network, size, **asdict(costs))
        why = f"{args.collective} was asked for"
        return [Plan(network, size, schedule, args.collective, 1, predicted.seconds, least.seconds, why, schedule)]
    spare = SPARE if args.candidates > 1 else 0
    return shortlist(network, size, args.candidates, seconds=seconds, costs=costs, spare=spare)


def _print(found: list[Measured], as_json: bool) -> None:
    if as_json:
        print_json({"workers": len(found[0].plan.network.workers), "results": [_facts(m) for m in found]})
        return
    from weft.runtime.measuring import sizes_in_table

    print_table(sizes_in_table(found), right=range(1, 7))
    print_line()
    for m in found:
        print_line(m.plan.why)


def _facts(m: Measured) -> dict[str, Any]:
    from weft.cli.plan import link_bytes

    return {
        "bytes": m.plan.nbytes,
        "weft_seconds": m.weft_seconds,
        "backend_seconds": m.backend_seconds,
        "predicted_seconds": m.plan.seconds,
        "bound_seconds": m.plan.bound,
        "speedup": m.backend_seconds / m.weft_seconds,
        "collective": m.plan.collective,
        "segments": m.plan.segments,
        "transfers": len(m.plan.schedule),
        "depth": m.plan.schedule.depth,
        "digest": m.plan.digest,
        "link_bytes": link_bytes(m.plan),
        "paced": m.paced,
        "why": m.plan.why,
        "weft_times": list(m.weft_times),
        "backend_times": list(m.backend_times),
    }
