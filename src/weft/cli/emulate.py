"""Run a command as every worker of a network, on this machine: each in its own network namespace, every link at its rate.

weft emulate cluster.yaml -- python train.py
weft emulate cluster.yaml --slow 'tor-a>core*0.25@10s..20s' -- python train.py
weft emulate --check

Workers find RANK, WORLD_SIZE, LOCAL_RANK (0: each is a host of its own), LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT,
GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME, TP_SOCKET_IFNAME, WEFT_NETWORK (the network file) and WEFT_WORKER (their name) in
their environment, and OMP_NUM_THREADS where it is not set. Ranks count active workers. Names of workers resolve. There
is no way out of the emulated network: data must be on the disk.

Rank 0's standard output passes through untouched; all other output goes to standard error, line by line behind its
rank. The exit code is that of the first worker that failed, 128 and the signal for one that was killed.

Conditions count from the start of the workers. A paused worker stands still (SIGSTOP): unlike in the simulator it does not
compute either, and what its sockets hold still moves. Background flows are TCP connections. Where routes are split,
connections are spread over them, not bytes. A link that was idle lets 0.75 ms of its rate pass at once.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

from weft.cli.arguments import NETWORK_HELP, add_conditions, add_json, conditions_of, network_of
from weft.cli.output import print_json, print_line, progress
from weft.errors import InputError
from weft.units import parse_seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "weft emulate NETWORK [options] -- COMMAND...\n       weft emulate --check [--json]"
    parser.add_argument("network", metavar="NETWORK", nargs="?", help=NETWORK_HELP)
    parser.add_argument("--active", metavar="W,W,...", help="only these workers run the command; the others may relay")
    parser.add_argument(
        "--routing", choices=("pinned", "split"), help="equally short routes: one by a hash, or spread by connection"
    )
    add_conditions(parser)
    parser.add_argument(
        "--queue",
        metavar="TIME",
        default="20ms",
        help="what a link's queue holds at its rate, at least 24 kB (default 20ms)",
    )
    parser.add_argument(
        "--grace", metavar="TIME", default="10s", help="for the others, when one worker fails (default 10s)"
    )
    parser.add_argument("--verbose", action="store_true", help="say how long the network took to build")
    parser.add_argument("--check", action="store_true", help="say what this machine has and lacks, and run nothing")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.check:
        return _check(args)
    if args.network is None:
        raise InputError("there is no network: give a file, such as weft emulate cluster.yaml -- python train.py")
    if args.json:
        raise InputError("--json goes with --check: otherwise standard output belongs to rank 0")
    from weft.emulation import emulate

    as_given = Path(args.network).exists() and not args.active and not args.routing
    with ExitStack() as bar:
        report = bar.enter_context(progress("building the network"))

        def built(done: int, whole: int) -> None:
            report(done, whole)
            if done == whole:
                # From here on standard error belongs to the workers.
                bar.close()

        return emulate(
            network_of(args), args.command, conditions_of(args), network_file=Path(args.network) if as_given else None,
            queue=parse_seconds(args.queue), grace=parse_seconds(args.grace), verbose=args.verbose, progress=built,
        )  # fmt: skip


def _check(args: argparse.Namespace) -> int:
    from weft.emulation.capabilities import capabilities

    found = capabilities()
    if args.json:
        print_json(found.to_json())
    else:
        for line in found.lines():
            print_line(line)
    return 0 if found.can_emulate else 1
