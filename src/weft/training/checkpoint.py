"""Checkpoints: everything that a training needs to go on to the same bits, in one file that is there whole or not at all.

The file is torch's format and holds tensors, numbers and texts alone: it is read with ``weights_only=True``, so it cannot run
code. ``torch.load(path, weights_only=True)["model"]`` is the model's state.
"""

from __future__ import annotations

import io
import json
import pickle
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from weft.errors import InputError
from weft.files import write_atomically
from weft.runtime.together import gathered
from weft.training.sampler import Position

VERSION = 2
_PLAIN = ("elapsed", "config", "plan", "buckets", "model", "optimizer", "ranks")
FILE = "checkpoint.pt"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What else must be the same for the same bits."""

    workers: int
    threads: int
    device: str
    torch: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of all workers after a step."""

    position: Position
    elapsed: float
    config: str
    plan: str | None
    buckets: list[list[Any]] | None
    """which gradients leave together; None while that is being found out"""
    conditions: Conditions
    model: dict[str, Any]
    optimizer: dict[str, Any]
    ranks: list[dict[str, Any]]
    """of every worker: its random numbers, and buffers of the model, which are its own"""

    def to_bytes(self) -> bytes:
        content = {name: getattr(self, name) for name in _PLAIN}
        content |= {"position": asdict(self.position), "conditions": asdict(self.conditions)}
        return _saved({"weft_checkpoint": VERSION, **content})

    def write(self, path: Path) -> None:
        write_atomically(path, self.to_bytes())


def checkpoint_of(data: bytes, name: str) -> Checkpoint:
    """The checkpoint that a file holds."""
    try:
        content = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        version = content["weft_checkpoint"]
        if version != VERSION:
            raise InputError(f"{name} is a checkpoint of version {version}: this Weft reads version {VERSION}")
        position, conditions = Position(**content["position"]), Conditions(**content["conditions"])
        rest = {key: content[key] for key in _PLAIN}
        return Checkpoint(position=position, conditions=conditions, **rest)
    except InputError:
        raise
    except pickle.UnpicklingError as error:
        raise InputError(f"{name} is not a checkpoint that Weft wrote: it holds more than tensors and texts") from error
    except Exception as error:
        text = str(error).partition("\n")[0]
        raise InputError(f"{name} is not a checkpoint that Weft wrote, or is damaged: {text}") from error


def ranks_state(model: nn.Module, device: torch.device, kept: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The part of the state that every worker has for itself, of all of them; ``kept`` is what it has not sent yet."""
    own = {"random": random_state(device), "buffers": {name: buffer.cpu() for name, buffer in model.named_buffers()}}
    if kept:
        own["compress"] = kept
    return [torch.load(io.BytesIO(x), weights_only=True) for x in gathered(_saved(own), device)]


def restore_rank(state: dict[str, Any], model: nn.Module, device: torch.device) -> None:
    """Put back this worker's own part."""
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(state["buffers"][name])
    restore_random(state["random"], device)


def random_state(device: torch.device) -> dict[str, Any]:
    """The state of torch's, numpy's and Python's random numbers."""
    kind, keys, *rest = np.random.get_state(legacy=True)
    version, words, gauss = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "numpy": [str(kind), torch.from_numpy(np.asarray(keys, np.int64)), *rest],
        "python": [version, torch.tensor(words), gauss],
    }


def restore_random(state: dict[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and state["cuda"] is not None:
        torch.cuda.set_rng_state(state["cuda"], device)
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words.tolist()), gauss))


def differences(before: str, now: str) -> dict[str, list[str]]:
    """What two configurations have different, by table: ``model.hidden was [64] and is [128]``."""
    old, new = json.loads(before), json.loads(now)
    found: dict[str, list[str]] = {}
    for table in sorted({*old, *new}):
        flat_old, flat_new = _flat(old.get(table), table), _flat(new.get(table), table)
        for key in sorted({*flat_old, *flat_new}):
            was, is_now = flat_old.get(key), flat_new.get(key)
            if was != is_now:
                found.setdefault(table, []).append(f"{key} was {json.dumps(was)} and is {json.dumps(is_now)}")
    return found


def _flat(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {place: value}
    return {key: item for name, inner in value.items() for key, item in _flat(inner, f"{place}.{name}").items()}


def _saved(content: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()
