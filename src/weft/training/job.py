"""The job of one worker: join the others, prepare, go on from a checkpoint or begin, train, and sum up."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from weft.errors import ExecutionError, InputError
from weft.torch import DataParallel
from weft.training.checkpoint import FILE, Checkpoint, checkpoint_of, differences, restore_rank
from weft.training.config import Config, to_json
from weft.training.exchange import everybody, from_rank_0
from weft.training.joining import Place, joined
from weft.training.loop import Audience, Loop, conditions
from weft.training.metrics import MetricsFile
from weft.training.preparation import prepared
from weft.training.rates import optimizer_of
from weft.training.sampler import Position, Sampler
from weft.training.seeds import RANK, derived, seed_everything
from weft.training.steps import Stepper
from weft.training.stopping import stop_requests
from weft.training.summary import Summary
from weft.training.synchronization import synchronized

METRICS = "metrics.jsonl"


def train(config: Config, audience: Audience, resume: bool = False, fresh: bool = False) -> Summary:
    """Train as one of the workers; what came of it. The audience of rank 0 alone is told."""
    begun = time.monotonic()
    with joined(config.training.device) as place:
        try:
            loop = _loop_of(config)(config, place, audience, resume, fresh)
            with stop_requests() as request:
                loop.run(request)
            if loop.accuracy is None and not loop.signal:
                _, loop.accuracy = loop.tested()
        except RuntimeError as error:
            if isinstance(error, dist.DistError) or "gloo" in str(error):
                raise ExecutionError(f"rank {place.rank} has lost another rank: {error}") from error
            raise
        if loop.metrics is not None:
            loop.metrics.close()
            _write_trace(loop)
        return Summary.of(loop, time.monotonic() - begun)


def _loop_of(config: Config) -> Callable[[Config, Place, Audience, bool, bool], Loop]:
    """How the training of a file begins: there are strategies in which workers have parameters of their own."""
    if config.strategy.name == "bsp":
        return _loop
    from weft.training.strategy_job import strategy_loop

    return strategy_loop


def _loop(config: Config, place: Place, audience: Audience, resume: bool, fresh: bool) -> Loop:
    """The training where it begins, or where it goes on."""
    told = audience if place.rank == 0 else None
    everybody(lambda: check_folder(config.folder, place, resume, fresh), place.device)
    data, module = everybody(lambda: prepared(config, place), place.device)
    sampler = everybody(
        lambda: Sampler(len(data.train), config.training.batch, place.world, config.training.seed), place.device
    )
    checkpoint = found_checkpoint(config, place, told) if resume else None
    optimizer = optimizer_of(config.optimizer, module.parameters())
    seed_everything(derived(RANK, config.training.seed, place.rank))
    if checkpoint is not None:
        everybody(lambda: _restore_model(checkpoint, module, optimizer), place.device)
    model = _wrapped(module, config, place, checkpoint, told)
    if checkpoint is not None:
        # Last, because wrapping the model may have given everybody rank 0's buffers.
        restore_rank(checkpoint.ranks[place.rank % len(checkpoint.ranks)], module, place.device)
        if len(checkpoint.ranks) == place.world and "compress" not in differences(checkpoint.config, to_json(config)):
            model.load_compress_state_dict(checkpoint.ranks[place.rank].get("compress", {}))
    position = Position() if checkpoint is None else checkpoint.position
    metrics = MetricsFile(config.folder / METRICS, position.step) if place.rank == 0 else None
    stepper = Stepper(config, data, sampler, model, optimizer, place)
    elapsed = 0.0 if checkpoint is None else checkpoint.elapsed
    return Loop(stepper, conditions(place), position, elapsed, metrics, told)


def _wrapped(
    module: nn.Module, config: Config, place: Place, checkpoint: Checkpoint | None, told: Audience | None
) -> DataParallel:
    """The model with synchronized gradients: by the checkpoint's plan, unless another is asked for now."""
    before, buckets = None, None
    if checkpoint is not None and "plan" not in differences(checkpoint.config, to_json(config)):
        before, buckets = checkpoint.plan, checkpoint.buckets
    if told is not None and before is None and config.plan.plan == "auto" and place.world > 1:
        told.note("planning how to synchronize gradients ...")
    return synchronized(module, config, place.world, before, buckets)


def _write_trace(loop: Loop) -> None:
    """The last step of rank 0, where somebody wants it."""
    trace, name = loop.stepper.model.step_trace(), loop.config.output.trace
    if name is not None and trace is not None:
        trace.save(loop.config.beside(name))


def check_folder(folder: Path, place: Place, resume: bool, fresh: bool) -> bool:
    """Have a folder that rank 0 can write to, and that holds no other run; the others need none."""
    if place.rank:
        return True
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if fresh:
            (folder / FILE).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to the folder {folder}: {error.strerror}") from error
    if (folder / FILE).exists() and not resume:
        raise InputError(
            f"the folder {folder} holds a training already: go on with --resume, start again with --fresh, or choose another "
            "with -o"
        )
    return True


def found_checkpoint(config: Config, place: Place, told: Audience | None) -> Checkpoint | None:
    """The checkpoint that rank 0 has, on every worker, where it fits the training file."""
    path = config.folder / FILE

    def read() -> tuple[bytes | None]:
        try:
            return (path.read_bytes() if place.rank == 0 and path.exists() else None,)
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error

    data = from_rank_0(everybody(read, place.device)[0], place.device)
    if data is None:
        if told is not None:
            told.note(f"there is no checkpoint in {config.folder} yet: starting from the beginning")
        return None
    checkpoint = everybody(lambda: _fitting(checkpoint_of(data, str(path)), config), place.device)
    changes = _changes(checkpoint, config, place)
    if told is not None and changes:
        told.note(f"the result will differ from that of an uninterrupted training: {'; '.join(changes)}")
    return checkpoint


def _fitting(checkpoint: Checkpoint, config: Config) -> Checkpoint:
    """Refuse the checkpoint of another model, data or optimizer."""
    different = differences(checkpoint.config, to_json(config))
    wrong = different.get("model", []) + different.get("data", [])
    wrong += [text for text in different.get("optimizer", []) if text.startswith("optimizer.name ")]
    if wrong:
        raise InputError(
            f"the checkpoint in {config.folder} is of another training: {'; '.join(wrong)}; change it back, or choose another "
            "folder with -o"
        )
    return checkpoint


def _changes(checkpoint: Checkpoint, config: Config, place: Place) -> list[str]:
    """What is different now, and changes the bits of the result."""
    found = [text for texts in differences(checkpoint.config, to_json(config)).values() for text in texts]
    before, now = checkpoint.conditions, conditions(place)
    for name in ("workers", "threads", "device", "torch"):
        if getattr(before, name) != getattr(now, name):
            found.append(f"{name} were {getattr(before, name)} and are {getattr(now, name)}")
    return found


def _restore_model(checkpoint: Checkpoint, module: nn.Module, optimizer: torch.optim.Optimizer) -> bool:
    try:
        module.load_state_dict(checkpoint.model)
        optimizer.load_state_dict(checkpoint.optimizer)
    except (RuntimeError, ValueError, KeyError) as error:
        raise InputError(f"the checkpoint does not fit the model: {str(error).splitlines()[0]}") from error
    return True
