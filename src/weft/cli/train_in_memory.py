"""``weft train --in-memory``: all workers of a network in one process."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from weft.cli.output import note_first_run, print_json, print_line
from weft.cli.training_bar import TrainingBar
from weft.errors import InputError
from weft.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from weft.training import Config
    from weft.training.in_memory_job import MemorySummary


def run_in_memory(args: argparse.Namespace, config: Config) -> int:
    """Train, and print what came of it."""
    from weft.network import Network
    from weft.training.in_memory_job import train_in_memory

    if args.resume:
        raise InputError(
            "--resume goes on from a checkpoint, and a training in memory writes none: leave one of them out"
        )
    if args.workers is not None:
        raise InputError(
            "--workers starts processes, and --in-memory needs none: the network says how many workers there are"
        )
    if config.plan.network is None:
        raise InputError("--in-memory needs a network: give one with --network FILE")
    network = Network.load(config.beside(config.plan.network))
    note_first_run()
    bar = TrainingBar(config, quiet=args.json)
    try:
        summary = train_in_memory(config, network, bar, args.fresh)
    finally:
        bar.clear()
    if args.json:
        print_json(summary.to_json())
    else:
        print_memory_summary(summary)
    return 0


def print_memory_summary(summary: MemorySummary) -> None:
    print_line()
    best = f"best {summary.best_accuracy:.2%} after step {summary.best_step}"
    print_line(f"accuracy       {summary.accuracy:.2%} of the test examples are right; {best}")
    print_line(f"model          {summary.model}, {summary.parameters:,} parameters, on {summary.data}")
    print_line(f"strategy       {summary.strategy}, {summary.workers} workers of {summary.network!r}")
    if summary.consensus is not None:
        print_line(f"               {summary.consensus}")
    for adjustment in summary.adjustments:
        print_line(f"               from step {adjustment.step} on: {adjustment.slow}")
    share = f"{summary.communication_share:.1%} communication, {format_bytes(summary.bytes_sent)} sent"
    print_line(f"time           {format_seconds(summary.seconds)} for {summary.steps} steps, simulated; {share}")
    print_line(f"metrics        {summary.metrics}")
