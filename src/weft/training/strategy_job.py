"""Training by strategies other than BSP: every worker has its own parameters, or pulls them from servers at its own pace.

Averaging (ds-sync, gossip, local-sgd): all workers take steps together. Every worker saves its own state, in a file of its own
that has the step in its name; rank 0's checkpoint.pt, which says which step counts, is written when all of them are there. So a
checkpoint is whole or not there at all. Workers on machines without a common disk find their own files again on theirs.

Serving (asp, ssp): nobody's step waits for a record, so rank 0 writes down its own steps, and tests alone. For a checkpoint all
workers pause, each after a step of its own; every worker goes on from there. What comes of it is not the same to the bit, as
nothing is that depends on who is faster.
"""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch

from weft.errors import InputError
from weft.files import write_atomically
from weft.runtime import together
from weft.torch import DataParallel
from weft.training.checkpoint import FILE, Checkpoint, random_state, restore_random
from weft.training.config import Config, to_json
from weft.training.evaluation import evaluated
from weft.training.exchange import everybody
from weft.training.job import METRICS, check_folder, found_checkpoint
from weft.training.joining import Place
from weft.training.judging import judged, renew_statistics
from weft.training.loop import Audience, Loop, conditions
from weft.training.metrics import MetricsFile
from weft.training.preparation import prepared
from weft.training.sampler import Position, Sampler
from weft.training.seeds import RANK, derived, seed_everything
from weft.training.steps import Stepper
from weft.training.stopping import StopRequest
from weft.training.strategy_model import Stepping, StrategyModel, strategy_model

SERVING = ("asp", "ssp")


def strategy_loop(config: Config, place: Place, audience: Audience, resume: bool, fresh: bool) -> Loop:
    """The training where it begins, or where it goes on."""
    told = audience if place.rank == 0 else None
    serving = config.strategy.name in SERVING
    everybody(lambda: check_folder(config.folder, place, resume, fresh), place.device)
    data, module = everybody(lambda: prepared(config, place), place.device)
    sampler = everybody(
        lambda: Sampler(len(data.train), config.training.batch, place.world, config.training.seed), place.device
    )
    checkpoint = found_checkpoint(config, place, told) if resume else None
    own = everybody(lambda: (_own_state(config.folder, checkpoint, place),), place.device)[0]
    seed_everything(derived(RANK, config.training.seed, place.rank))
    model = strategy_model(module, config, place)
    if own is not None:
        model.load_local_state(own["model"])
        restore_random(own["random"], place.device)
    position = Position() if own is None else Position(**own["position"])
    metrics = MetricsFile(config.folder / METRICS, position.step) if place.rank == 0 else None
    stepper = (_LonelyStepper if serving else Stepper)(
        config, data, sampler, cast(DataParallel, model), cast(torch.optim.Optimizer, Stepping(model)), place
    )
    elapsed = 0.0 if checkpoint is None else checkpoint.elapsed
    kind = ServingLoop if serving else AveragingLoop
    return kind(stepper, conditions(place), position, elapsed, metrics, told)


def _own_state(folder: Path, checkpoint: Checkpoint | None, place: Place) -> dict[str, Any] | None:
    """What this worker has saved at the step of a checkpoint."""
    if checkpoint is None:
        return None
    if checkpoint.conditions.workers != place.world:
        raise InputError(
            f"the checkpoint in {folder} is of {checkpoint.conditions.workers} workers with parameters of their own, and "
            f"{place.world} train now: start as many, or begin again with --fresh"
        )
    path = _own_file(folder, checkpoint.position.step, place.rank)
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(path.read_bytes()), map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"cannot read rank {place.rank}'s own state, {path}: {error.strerror}") from error
    return state


def _own_file(folder: Path, step: int, rank: int) -> Path:
    return folder / f"checkpoint-{step}-rank-{rank}.pt"


@dataclass(slots=True)
class AveragingLoop(Loop):
    """All workers in step, each with its own parameters."""

    @property
    def model(self) -> StrategyModel:
        return cast(StrategyModel, self.stepper.model)

    def tested(self) -> tuple[float, float]:
        """Of what all workers together have learned."""
        with self.model.merged() as ensemble:
            if ensemble:
                renew_statistics(self.model.module, self.stepper.data, self.place.device)
            return evaluated(self.model.module, self.stepper.data, self.place)

    def _save(self) -> None:
        if self._saved == self.position:
            return
        self._saved = self.position
        rank = self.place.rank
        path = _save_own(self, self.position.step)
        with self.model.merged():
            # The collectives inside are behind everybody's file: it is there when this is written.
            if rank == 0:
                _model_checkpoint(self, self.model).write(self.config.folder / FILE)
        together.barrier()
        _drop_others(path, rank)


class _Landed:
    def wait(self) -> None:
        """Nothing was sent."""


class _LonelyStepper(Stepper):
    """Steps of which no other worker hears."""

    def _summed(self, sums: torch.Tensor) -> Any:
        sums.mul_(self.place.world)  # a record has means over workers; bytes are those of all, if all send alike
        return _Landed()


@dataclass(slots=True)
class ServingLoop(Loop):
    """Every worker at its own pace; rank 0 tells of its own."""

    _finished: bool = False

    @property
    def model(self) -> StrategyModel:
        return cast(StrategyModel, self.stepper.model)

    def tested(self) -> tuple[float, float]:
        """On rank 0 alone, with its own statistics of batch normalization."""
        if self._at_end():
            self._save()
            self._finish()
        if self.place.rank:
            return float("nan"), float("nan")
        module = self.model.module
        found = judged(module, self.stepper.data, self.place.device)
        module.train()
        return found

    def run(self, request: StopRequest) -> None:
        """Train, and let others go on when this worker does not any more."""
        super(ServingLoop, self).run(request)
        self._finish()

    def _finish(self) -> None:
        if not self._finished:
            self._finished = True
            self.model.finish()

    def _save(self) -> None:
        """Everybody pauses three times: when steps are finished, when own files are there, and when they count."""
        if self._saved == self.position:
            return
        self._saved = self.position
        path = _save_own(self, self.model.pause(self.position.step))
        self.model.pause()
        if self.place.rank == 0:
            _model_checkpoint(self, self.model).write(self.config.folder / FILE)
        self.model.pause()
        _drop_others(path, self.place.rank)


def _save_own(loop: AveragingLoop | ServingLoop, step: int) -> Path:
    """Write down what a worker has for itself, under the step that rank 0 has reached."""
    path, buffer = _own_file(loop.config.folder, step, loop.place.rank), io.BytesIO()
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {"model": loop.model.local_state(), "random": random_state(loop.place.device)}
    torch.save(state | {"position": asdict(loop.position)}, buffer)
    write_atomically(path, buffer.getvalue())
    return path


def _drop_others(path: Path, rank: int) -> None:
    for old in path.parent.glob(f"checkpoint-*-rank-{rank}.pt"):
        if old != path:
            old.unlink(missing_ok=True)


def _model_checkpoint(loop: Loop, model: StrategyModel) -> Checkpoint:
    """What everybody should know: where the training is, and the model."""
    return Checkpoint(
        loop.position, loop.elapsed, to_json(loop.config), None, None, loop.conditions, model.module.state_dict(),
        model.optimizer.state_dict(), [],
    )  # fmt: skip
