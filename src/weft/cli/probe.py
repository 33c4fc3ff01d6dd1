"""Measure the network between the ranks that run this, and write it as a network file.

torchrun --nnodes 8 --nproc-per-node 1 ... -m weft probe -o cluster.yaml
weft emulate cluster.yaml -- weft probe --json

Pairs send to each other in N - 1 rounds of disjoint pairs, both ways at once; then rounds of streams, 2N + 16 at most, tell
apart which workers share an uplink, because a lone pair cannot see that. A network is written with workers' rates, racks and
their uplinks; rates are those of payload. Workers are one region as long as no uplink holds them back.

It measures for at most --time, and no rank sends more than --bytes; on the first run ever, rank 0 compiles the inference, which
takes about half a minute more. Nothing else should use the network meanwhile. All output is rank 0's.

--json prints regions (lists of ranks; every rank is in one), uplinks_felt (by region: whether its uplink was seen to hold
streams back; the rate of one that was not is a guess), fit_error (the median of |measured / expected - 1| over
links that held streams back), margin (how much likelier than any other this network is, in natural logarithms), network (the
text of the network file), pairs, rounds, seconds, bytes (of all ranks) and rank_bytes (of the busiest).
"""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.arguments import add_json
from weft.cli.describe import network_lines
from weft.cli.output import print_json, print_line, print_table, progress
from weft.errors import InputError
from weft.units import format_bytes, format_seconds, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from weft.runtime.probe import Probed

MOST_IN_TABLE = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="NETWORK", help="write the network to a file")
    parser.add_argument("--picture", metavar="FILE", help="also draw it, as .svg or .png")
    parser.add_argument("--time", metavar="TIME", default="60s", help="how long to measure at most (default 60s)")
    parser.add_argument("--bytes", metavar="SIZE", default="4GB", help="what any rank sends at most (default 4GB)")
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    seconds, nbytes = parse_seconds(args.time), parse_bytes(args.bytes)
    if seconds <= 0:
        raise InputError("--time must be more than 0")
    if args.picture and Path(args.picture).suffix not in (".svg", ".png"):
        raise InputError(f"cannot draw {args.picture!r}: a picture is a .svg or a .png file")
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise InputError(f"{missing[0]} is not set: run weft probe as every rank, under torchrun or weft emulate")
    probed = _probed(seconds, nbytes)
    if os.environ["RANK"] != "0":
        return
    if args.output:
        probed.network.save(args.output)
    if args.picture:
        _draw(probed, Path(args.picture))
    if args.json:
        print_json(probed.to_json())
    else:
        print_probed(probed)


def _probed(seconds: float, nbytes: int) -> Probed:
    try:
        from weft.runtime.probe import probe_from_environment
    except ImportError as error:
        raise InputError(f"probing needs torch: pip install weft[torch] ({error})") from error
    with ExitStack() as bar:
        report = bar.enter_context(progress("probing")) if os.environ["RANK"] == "0" else None
        return probe_from_environment(seconds=seconds, nbytes=nbytes, progress=report)


def _draw(probed: Probed, path: Path) -> None:
    from weft.report.network_picture import network_figure
    from weft.report.save import save_figure

    save_figure(network_figure(probed.network), path)


def print_probed(probed: Probed) -> None:
    """The network in words, and what was measured of its pairs."""
    for line in network_lines(probed.network):
        print_line(line)
    unfelt = [region for region, felt in zip(probed.regions, probed.uplinks_felt, strict=True) if not felt]
    if unfelt and len(probed.regions) > 1:
        ranks = "; ".join(" ".join(map(str, region)) for region in unfelt)
        print_line(f"not felt: the uplink of ranks {ranks}; its rate is a guess")
    print_line()
    _print_pairs(probed)
    print_line()
    print_line(f"fit error   {probed.fit_error:.1%}, the median over links that held streams back")
    print_line(f"spent       {format_seconds(probed.seconds)}, {probed.rounds} rounds, {format_bytes(probed.bytes)} in all, "
               f"at most {format_bytes(probed.rank_bytes)} by one rank")  # fmt: skip


def _print_pairs(probed: Probed) -> None:
    """Rates while all pairs sent at once, row to column, and the latencies of short messages."""
    names = probed.network.workers
    shown = min(len(names), MOST_IN_TABLE)
    for title, value in (
        ("Mbit/s while all pairs send", {(p.source, p.destination): f"{p.bandwidth * 8e-6:.0f}" for p in probed.pairs}),
        ("us, a short message", {(p.source, p.destination): f"{p.latency * 1e6:.0f}" for p in probed.pairs}),
    ):
        print_line(f"{title}, from the row's worker to the column's")
        rows = [[names[i], *(value.get((i, j), "-") for j in range(shown))] for i in range(shown)]
        print_table([["", *names[:shown]], *rows], right=range(1, shown + 1))
    if shown < len(names):
        print_line(f"... and {len(names) - shown} more workers")
