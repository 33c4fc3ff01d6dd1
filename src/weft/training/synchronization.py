"""The model with gradients that are synchronized, by the plan that the training file names."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from weft.collectives import COLLECTIVES
from weft.errors import InputError
from weft.network import Network, full_mesh
from weft.planning import Plan
from weft.schedule import Schedule
from weft.sparse import Compression
from weft.torch import Arrangement, Choice, DataParallel, Decision
from weft.training.config import Config
from weft.training.options import CompressOptions

NETWORK = "WEFT_NETWORK"
"""where weft emulate says which network this is"""


def synchronized(
    module: nn.Module,
    config: Config,
    world: int,
    chosen_before: str | None = None,
    buckets_before: list[list[Any]] | None = None,
) -> DataParallel:
    """The model, wrapped. What was chosen before an interruption is taken again, where it is for as many workers.

    Running averages of batch normalization are not exchanged in every step: evaluation and checkpoints average them.
    """
    wrap = partial(
        DataParallel, module, bucket_bytes=config.plan.bucket_bytes, broadcast_buffers=False,
        compress=compress_of(config.compress),
    )  # fmt: skip
    overlap = _overlap(config)
    if chosen_before is not None:
        choice = Choice.parse(chosen_before)
        if all(isinstance(way, str) or workers_of(way) == world for _, way in choice.ways):
            before = None if buckets_before is None else Arrangement.of_json(buckets_before)
            model = wrap(choice, overlap=before or overlap)
            model.decision = Decision(choice, (f"{choice}, as before the interruption",))
            return model
    name, network = config.plan.plan, network_of(config, world)
    if name in ("auto", "backend"):
        return wrap(name, network=network, overlap=overlap)
    return wrap(_given(config, network, world), overlap=overlap)


def compress_of(options: CompressOptions) -> Compression | str | None:
    """What a training file says, as DataParallel takes it."""
    if not options.is_sparse:
        return None if options.name == "none" else options.name
    return Compression(
        options.name, options.density, options.teams or "auto", residuals=options.residuals, values=options.values,
        per_layer=options.per_layer, warmup=options.warmup, momentum=options.momentum,
    )  # fmt: skip


def _overlap(config: Config) -> str | None:
    name = config.plan.overlap.replace("_", "-")
    if name == "none" or (name == "auto" and config.plan.plan != "auto"):
        return None
    return name


def workers_of(way: Plan | Schedule) -> int:
    return way.workers if isinstance(way, Schedule) else way.schedule.workers


def _given(config: Config, network: Network | None, world: int) -> Plan | Schedule:
    """The plan of a file, or the schedule of a collective."""
    name = config.plan.plan
    if name.endswith(".json"):
        return Plan.load(config.beside(name))
    # A collective that asks nothing of the network is the same on any.
    return COLLECTIVES[name.replace("_", "-")](full_mesh(world) if network is None else network)


def network_of(config: Config, world: int) -> Network | None:
    """The network among the workers: the file's, or that of the emulation, or None: then it must be measured.

    Workers that take no part have no rank; they are switches to the others.
    """
    path = config.plan.network and config.beside(config.plan.network)
    found = path or (Path(os.environ[NETWORK]) if os.environ.get(NETWORK) else None)
    if found is None:
        return None
    network = Network.load(found)
    if network.inactive:
        active = tuple(network.workers[rank] for rank in network.active)
        switches = (*network.switches, *network.inactive)
        network = replace(network, workers=active, switches=switches, inactive=(), regions=None)
    if len(network.workers) != world:
        raise InputError(f"plan.network: {found} has {len(network.workers)} active workers, and {world} train")
    return network
