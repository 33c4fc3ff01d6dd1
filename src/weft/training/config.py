"""Config: what a training file says, checked as a whole before anything starts. Nothing here imports torch."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from weft.errors import InputError
from weft.network.check import closest
from weft.training.options import (
    DATA,
    MODELS,
    CompressOptions,
    Digits,
    Function,
    Mlp,
    Optimizer,
    StrategyOptions,
    at_least,
)
from weft.training.reading import Reader
from weft.units import parse_bytes

MOST_BYTES = 1 << 20
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A model or data by name, with its options."""

    name: str
    options: Any


@dataclass(frozen=True, slots=True)
class Training:
    """How much, and from which seed."""

    epochs: int = at_least(1, 10)
    batch: int = at_least(1, 32)
    """examples of one worker in one step"""
    accumulate: int = at_least(1, 1)
    """so many pieces of a batch are computed one after the other, and synchronized once"""
    steps: int | None = at_least(1, None)
    """the training ends after so many steps at the latest; the learning rate stays that of all epochs"""
    seed: int = at_least(0, 0)
    device: Literal["auto", "cpu", "cuda"] = "auto"


@dataclass(frozen=True, slots=True)
class Planning:
    """How gradients are synchronized."""

    plan: str = "auto"
    """auto, backend, the name of a collective, or a plan file"""
    network: str | None = None
    overlap: str = "auto"
    """auto, none, or the name of a scheduler; auto stands for none where the plan is not auto"""
    bucket: str = "25MB"
    """how large buckets are before anything is known about them, and for good without overlap"""

    @property
    def bucket_bytes(self) -> int:
        return parse_bytes(self.bucket)


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go."""

    folder: str | None = None
    checkpoint_steps: int = at_least(0, 0)
    """a checkpoint every so many steps; 0: at the end of epochs alone"""
    checkpoint_epochs: int = at_least(1, 1)
    evaluate_epochs: int = at_least(1, 1)
    trace: str | None = None
    """a file for the last step, as it was and as it was predicted"""


@dataclass(frozen=True, slots=True)
class Config:
    """One training job."""

    source: Path
    model: Chosen = field(default_factory=lambda: Chosen("mlp", Mlp()))
    data: Chosen = field(default_factory=lambda: Chosen("digits", Digits()))
    training: Training = field(default_factory=Training)
    optimizer: Optimizer = field(default_factory=Optimizer)
    plan: Planning = field(default_factory=Planning)
    output: Output = field(default_factory=Output)
    strategy: StrategyOptions = field(default_factory=StrategyOptions)
    compress: CompressOptions = field(default_factory=CompressOptions)

    @property
    def folder(self) -> Path:
        """Where metrics and checkpoints are: as the file says from where we are called, or ``runs/`` and its name."""
        return Path(self.output.folder or f"runs/{self.source.stem}")

    def beside(self, name: str) -> Path:
        """A file that the training file names: relative to it."""
        return self.source.parent / name

    @staticmethod
    def load(path: str | Path) -> Config:
        """Read a training file; every mistake in it is in one ``InputError``."""
        path = Path(path)
        try:
            if path.is_file() and path.stat().st_size > MOST_BYTES:
                raise InputError(f"{path} has {path.stat().st_size} bytes; a training file has at most {MOST_BYTES}")
            return config_of(path.read_text(), path)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InputError(f"cannot read {path}: {reason}") from error


def config_of(text: str, source: Path) -> Config:
    """The training job of a TOML text."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not TOML: {error}") from error
    reader = Reader(str(source))
    tables = [x.name for x in dataclasses.fields(Config) if x.name != "source"]
    reader.unknown("", document, tables)
    for required in ("model", "data"):
        if required not in document:
            reader.mistake(required, f"there is none; write [{required}] and a name")
    config = Config(
        source,
        _chosen(reader, document, "model", MODELS),
        _chosen(reader, document, "data", DATA),
        reader.read(Training, reader.table(document, "training"), "training"),
        reader.read(Optimizer, reader.table(document, "optimizer"), "optimizer"),
        reader.read(Planning, reader.table(document, "plan"), "plan"),
        reader.read(Output, reader.table(document, "output"), "output"),
        reader.read(StrategyOptions, reader.table(document, "strategy"), "strategy"),
        reader.read(CompressOptions, reader.table(document, "compress"), "compress"),
    )
    _check(reader, config)
    reader.raise_mistakes()
    return config


def _chosen(reader: Reader, document: Mapping[str, Any], key: str, kinds: Mapping[str, type]) -> Chosen:
    table = reader.table(document, key)
    name = table.get("name")
    rest = {k: v for k, v in table.items() if k != "name"}
    if isinstance(name, str) and ":" in name:
        if not _FUNCTION.fullmatch(name):
            reader.mistake(f"{key}.name", f'"{name}" is not module:function')
        return Chosen(name, Function(name, rest))
    if isinstance(name, str) and name.replace("_", "-") in kinds:
        name = name.replace("_", "-")
        return Chosen(name, reader.read(kinds[name], rest, key))
    if key in document and isinstance(document[key], dict):
        names = [*kinds, "module:function"]
        near = closest(name, list(kinds)) if isinstance(name, str) else ""
        said = "there is none" if name is None else f'there is no {key} "{name}"'
        reader.mistake(f"{key}.name", f"{said}{near or '; there are ' + ', '.join(names)}")
    return Chosen("", None)


def _check(reader: Reader, config: Config) -> None:
    """Mistakes that more than one value has a part in, and names of the planner's."""
    training = config.training
    if training.batch % training.accumulate:
        reader.mistake(
            "training.accumulate", f"a batch of {training.batch} cannot be cut into {training.accumulate} equal pieces"
        )
    options = config.model.options
    if config.model.name == "transformer" and options.width % options.heads:
        reader.mistake("model.heads", f"a width of {options.width} cannot be shared by {options.heads} heads")
    try:
        parse_bytes(config.plan.bucket)
    except InputError as error:
        reader.mistake("plan.bucket", str(error))
    problem = overlap_mistake(config.plan.overlap)
    if problem:
        reader.mistake("plan.overlap", problem)
    problem = plan_mistake(config.plan.plan, config.beside(config.plan.plan))
    if problem:
        reader.mistake("plan.plan", problem)
    if config.plan.network is not None and not config.beside(config.plan.network).is_file():
        reader.mistake("plan.network", f"there is no file {config.beside(config.plan.network)}")
    problem = combination_mistake(config)
    if problem:
        where = "strategy.parts" if config.strategy.parts > 1 else "strategy.name"
        reader.mistake(where if config.compress.name == "none" else "compress.name", problem)


PLANS = ("auto", "backend")


def plan_mistake(name: str, file: Path) -> str | None:
    """What is wrong with the name of a plan, if anything."""
    if name.endswith(".json"):
        return None if file.is_file() else f"there is no file {file}"
    from weft.collectives import COLLECTIVES

    known = [*PLANS, *COLLECTIVES]
    if name.replace("_", "-") in known:
        return None
    near = closest(name, known)
    return f'there is no plan "{name}"{near or "; there are " + ", ".join(known)}, and plan files, which end in .json'


def overlap_mistake(name: str) -> str | None:
    """What is wrong with the name of a scheduler, if anything."""
    from weft.overlap import SCHEDULERS

    known = ["auto", "none", *SCHEDULERS]
    if name.replace("_", "-") in known:
        return None
    return f'there is no scheduler "{name}"{closest(name, known) or "; there are " + ", ".join(known)}'


def strategy_mistake(name: str) -> str | None:
    """What is wrong with the name of a strategy, if anything."""
    from weft.strategies import STRATEGIES

    known = list(STRATEGIES)
    if name.replace("_", "-") in known:
        return None
    return f'there is no strategy "{name}"{closest(name, known) or "; there are " + ", ".join(known)}'


def combination_mistake(config: Config) -> str | None:
    """What does not go together, if anything does not."""
    from weft.strategies.composing import refusal

    name, strategy = config.compress.name, config.strategy
    plan = config.plan.plan if config.plan.plan.endswith(".json") else config.plan.plan.replace("_", "-")
    problem = refusal(strategy.name, plan, config.plan.overlap.replace("_", "-"), name, strategy.parts)
    if problem is not None:
        return problem
    if config.output.trace is not None and strategy.name != "bsp":
        return f"a trace with {strategy.name}: the steps that are traced are those of bsp"
    if config.compress.is_sparse and config.compress.momentum and config.optimizer.momentum:
        return "with momentum correction the optimizer must have none of its own: set optimizer.momentum = 0"
    return None


def to_json(config: Config) -> str:
    """All that a checkpoint must agree with, as text that can be compared and read."""
    document = dataclasses.asdict(config)
    del document["source"], document["output"], document["training"]["steps"]
    if config.strategy == StrategyOptions():
        # Checkpoints from before there were strategies say nothing about them.
        del document["strategy"]
    elif config.strategy.parts == 1:
        del document["strategy"]["parts"]
    if config.compress == CompressOptions():
        del document["compress"]
    return json.dumps(document, sort_keys=True, default=str)
