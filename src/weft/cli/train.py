"""Train a model on several workers, as a TOML file says.

weft train examples/digits.toml --workers 4
torchrun --nproc-per-node 4 --no-python weft train examples/digits.toml
weft emulate cluster.yaml -- weft train examples/digits.toml
weft train examples/digits.toml --in-memory --network cluster.yaml --strategy ds-sync

With --workers, so many processes are started on this machine, over loopback. Otherwise it joins the workers that torchrun, weft
emulate or a Slurm script have started (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), or trains alone. Under Slurm:

srun bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID weft train CONFIG --resume'
with MASTER_ADDR and MASTER_PORT exported.

With --in-memory, all workers of the network are trained in this process, and time is what steps would take on it.

The output folder gets metrics.jsonl, a line for every step, and checkpoint.pt, with which --resume goes on to the same bits.
Ctrl-C and SIGTERM end the training after a step, with a checkpoint; a second Ctrl-C ends it at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.arguments import add_json
from weft.cli.output import note_first_run, print_json, print_line
from weft.cli.training_bar import TrainingBar
from weft.errors import ExecutionError, InputError
from weft.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from weft.training import Config, Summary
    from weft.training.options import CompressOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="a training file, such as examples/digits.toml")
    parser.add_argument("--workers", metavar="N", type=int, help="start so many on this machine")
    parser.add_argument("--plan", metavar="PLAN", help="auto, backend, the name of a collective, or a plan file")
    parser.add_argument(
        "--overlap", metavar="NAME",
        help="which gradients leave together and at once: auto, none, search, asc-wfbp, mg-wfbp, wfbp, fixed-size, one-bucket",
    )  # fmt: skip
    parser.add_argument("--trace", metavar="FILE", help="write the last step, as it was and as it was predicted")
    parser.add_argument("--network", metavar="FILE", help="plan for this network file instead of measuring")
    parser.add_argument("--strategy", metavar="NAME", help="bsp, ds-sync, gossip, local-sgd, asp or ssp")
    parser.add_argument(
        "--parts",
        metavar="N",
        type=int,
        help="with ds-sync or gossip: average one of N parts of the parameters in a step",
    )
    parser.add_argument(
        "--compress", metavar="NAME", help="send less: spardl, topk-a, topk-dsa, gtopk, ok-topk, fp16, bf16 or none"
    )
    parser.add_argument("--density", metavar="X", type=float, help="the part that sparse methods send, such as 0.01")
    parser.add_argument(
        "--in-memory", action="store_true", help="all workers of the network in this process, time simulated"
    )
    parser.add_argument("--epochs", metavar="N", type=int, help="train for so many epochs")
    parser.add_argument("--steps", metavar="N", type=int, help="end after so many steps at the latest")
    parser.add_argument("--seed", metavar="N", type=int, help="of everything that is random")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="for metrics and checkpoints (default runs/CONFIG)")
    parser.add_argument("--resume", action="store_true", help="go on from the folder's checkpoint, if there is one")
    parser.add_argument("--fresh", action="store_true", help="start again, over what the folder holds")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from weft.training.environment import check_environment, is_launched, is_worker
    from weft.training.launch import die_with_launcher, launched

    die_with_launcher()
    if args.resume and args.fresh:
        raise InputError("--resume goes on and --fresh starts again: leave one of them out")
    config = config_with(args)
    if args.in_memory:
        if config.compress.name != "none":
            raise InputError(
                f"{config.compress.name} is executed by real workers, and in memory gradients are averaged as they are: leave "
                "--in-memory or --compress out"
            )
        if config.output.trace is not None:
            raise InputError("in memory there are no steps on a network to trace: leave --in-memory or the trace out")
        _check_torch()
        from weft.cli.train_in_memory import run_in_memory

        return run_in_memory(args, config)
    check_environment(os.environ)
    if args.workers is not None and not is_launched(os.environ):
        if args.workers < 1:
            raise InputError(f"--workers {args.workers} is not possible: there must be at least 1")
        if is_worker(os.environ):
            raise InputError("--workers starts workers, and somebody has started this one already: leave it out")
        if args.workers > 1:
            from weft.cli import main

            return launched(_repeated(args), args.workers, main)
    return _trained(args, config)


def config_with(args: argparse.Namespace) -> Config:
    """The file's configuration, with what the command line says instead."""
    from weft.training import Config
    from weft.training.config import combination_mistake, overlap_mistake, plan_mistake, strategy_mistake

    config = Config.load(args.config)
    for name, least in (("epochs", 1), ("steps", 1), ("seed", 0)):
        value = getattr(args, name)
        if value is not None:
            if value < least:
                raise InputError(f"--{name} {value} is not possible: it must be at least {least}")
            config = replace(config, training=replace(config.training, **{name: value}))
    if args.plan is not None:
        problem = plan_mistake(args.plan, Path(args.plan))
        if problem:
            raise InputError(f"--plan: {problem}")
        path = str(Path(args.plan).absolute()) if args.plan.endswith(".json") else args.plan
        config = replace(config, plan=replace(config.plan, plan=path))
    if args.overlap is not None:
        problem = overlap_mistake(args.overlap)
        if problem:
            raise InputError(f"--overlap: {problem}")
        config = replace(config, plan=replace(config.plan, overlap=args.overlap))
    if args.trace is not None:
        config = replace(config, output=replace(config.output, trace=str(Path(args.trace).absolute())))
    if args.network is not None:
        if not Path(args.network).is_file():
            raise InputError(f"--network: there is no file {args.network}")
        config = replace(config, plan=replace(config.plan, network=str(Path(args.network).absolute())))
    if args.strategy is not None:
        problem = strategy_mistake(args.strategy)
        if problem:
            raise InputError(f"--strategy: {problem}")
        config = replace(config, strategy=replace(config.strategy, name=args.strategy.replace("_", "-")))
    if args.parts is not None:
        if args.parts < 1:
            raise InputError(f"--parts {args.parts} is not possible: it must be at least 1")
        config = replace(config, strategy=replace(config.strategy, parts=args.parts))
    config = replace(config, compress=_compress_with(args, config.compress))
    problem = combination_mistake(config)
    if problem:
        raise InputError(problem)
    if args.output is not None:
        config = replace(config, output=replace(config.output, folder=args.output))
    return config


def _compress_with(args: argparse.Namespace, options: CompressOptions) -> CompressOptions:
    from weft.network.check import closest
    from weft.training.options import COMPRESS_NAMES

    if args.compress is not None:
        name = args.compress.replace("_", "-")
        if name not in COMPRESS_NAMES:
            near = closest(name, list(COMPRESS_NAMES)) or f"; there are {', '.join(COMPRESS_NAMES)}"
            raise InputError(f'--compress: there is no method "{args.compress}"{near}')
        options = replace(options, name=name)
    if args.density is not None:
        if not 0 < args.density <= 1:
            raise InputError(f"--density {args.density:g} is not possible: it must be more than 0 and at most 1")
        if not options.is_sparse:
            raise InputError("--density is for sparse methods: add --compress spardl")
        options = replace(options, density=args.density)
    return options


def _repeated(args: argparse.Namespace) -> list[str]:
    """The command line of a worker."""
    words = ["train", args.config]
    given = "plan overlap trace network strategy parts compress density epochs steps seed output"
    for name in given.split():
        value = getattr(args, name)
        words += [] if value is None else [f"--{name}={value}"]
    words += [f"--{name}" for name in ("resume", "fresh", "json") if getattr(args, name)]
    return words


def _check_torch() -> None:
    if find_spec("torch") is None:
        raise InputError("weft train needs PyTorch: install it with pip install 'weft[train]'")


def _trained(args: argparse.Namespace, config: Config) -> int:
    _check_torch()
    from weft.training import train

    if config.plan.plan == "auto" and os.environ.get("RANK") == "0":
        note_first_run()
    bar = TrainingBar(config, quiet=args.json)
    try:
        summary = train(config, bar, args.resume, args.fresh)
    except ExecutionError as error:
        sys.stderr.write(f"weft train: error: {error}\n")
        return 1
    except InputError:
        # All workers have agreed on what is wrong, so one of them is enough to say it.
        if os.environ.get("RANK", "0") == "0":
            raise
        return 2
    finally:
        bar.clear()
    if summary.rank == 0:
        if args.json:
            print_json(summary.to_json())
        else:
            print_summary(summary)
    return 128 + summary.signal if summary.signal else 0


def print_summary(summary: Summary) -> None:
    print_line()
    if summary.signal:
        print_line(f"interrupted after step {summary.step}; the same command with --resume goes on")
    accuracy = "" if summary.accuracy is None else f"{summary.accuracy:.2%} of the test examples are right"
    print_line(f"accuracy       {accuracy or 'not evaluated'}")
    print_line(f"model          {summary.model}, {summary.parameters:,} parameters, on {summary.data}")
    took = f"{summary.steps} steps in {format_seconds(summary.step_seconds)}"
    print_line(f"time           {format_seconds(summary.seconds)}; {took}, {summary.samples_per_second:,.0f} samples/s")
    sent = f"{format_bytes(summary.bytes_sent)} sent by {summary.workers} worker{'s' * (summary.workers != 1)}"
    exposed = summary.exposed_seconds / summary.step_seconds if summary.step_seconds else 0.0
    print_line(f"communication  {summary.communication_share:.1%} of the time, {exposed:.1%} waited for; {sent}")
    if summary.compress is not None:
        print_line(f"compression    {summary.compress}")
    if summary.selecting_seconds is not None and summary.wire_seconds is not None:
        selecting, wire = format_seconds(summary.selecting_seconds), format_seconds(summary.wire_seconds)
        print_line(f"               selecting and adding up took {selecting}, messages {wire}, on rank 0")
    first, *rest = summary.plan.splitlines()
    print_line(f"plan           {first}")
    for line in rest:
        print_line(f"               {line}")
    if summary.planning_seconds:
        print_line(f"               measured and planned in {format_seconds(summary.planning_seconds)}")
    print_line(f"metrics        {summary.metrics}")
    print_line(f"checkpoint     {summary.checkpoint}")
    if summary.trace:
        print_line(f"trace          {summary.trace}; weft show draws it")
