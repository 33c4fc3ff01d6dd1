"""ErrorFeedback: one worker's residuals from call to call, by parameter, and its part in every call.

What is remembered belongs to parameters, not to buckets: when buckets change, it moves along. A call that fails leaves
everything as it was before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate as running_sums
from typing import Any, Literal, get_args

import numpy as np

from weft.errors import InputError
from weft.network import Network
from weft.sparse.accumulation import accumulate_with_momentum, first_not_finite
from weft.sparse.compression import Compression
from weft.sparse.finite import Note, NotFiniteError
from weft.sparse.ledger import Ledger
from weft.sparse.pairs import Pairs, Values
from weft.sparse.quota import Quota
from weft.sparse.rounds import Part
from weft.sparse.summing import Sums
from weft.sparse.task import Task
from weft.sparse.teams import AlphaBeta, TeamChoice
from weft.sparse.watch import Expected, Watch
from weft.sparse.wire import Span

VERSION = 1
Layout = Sequence[tuple[str, int]]
"""the parameters of a bucket in order: name and number of elements"""
Key = tuple[tuple[str, int], ...]
ReduceOp = Literal["average", "sum"]


@dataclass(slots=True, eq=False)
class _Memory:
    """Of one bucket."""

    residual: Values
    velocity: Values | None
    calls: int
    method: dict[str, Any] = field(default_factory=dict)
    expected: Expected = field(default_factory=dict)
    """where selecting should look"""
    rooms: dict[Span, Pairs] = field(default_factory=dict)
    """memory for what it finds there"""
    spare: Values | None = None
    """memory of the call before, to be written over"""


class ErrorFeedback:
    """What a worker has not sent yet, and how often it has sent; ``part`` takes it into account."""

    def __init__(
        self,
        compression: Compression,
        rank: int,
        workers: int,
        *,
        network: Network | None = None,
        cost: AlphaBeta | None = None,
    ) -> None:
        compression.check_workers(workers)
        if not 0 <= rank < workers:
            raise InputError(f"rank {rank} is not one of {workers} workers")
        self.compression, self.rank, self.workers = compression, rank, workers
        self.choices: dict[int, TeamChoice] = {}
        """why there are so many teams, by the number of elements, where that was open"""
        self._network, self._cost = network, cost
        self._buckets: dict[Key, _Memory] = {}
        self._home: dict[str, tuple[Key, int]] = {}
        """of every parameter: its bucket, and where in it"""
        self._loose: dict[str, dict[str, Any]] = {}
        """of parameters that were loaded and have not been seen"""
        self._methods: dict[str, dict[str, Any]] = {}

    def part(self, gradient: Values, layout: Layout = (), op: ReduceOp = "average") -> Part[Pairs]:
        """This worker's part in averaging, or adding up, a gradient over all workers; the result is the same everywhere.

        Without a layout the gradient is one parameter without a name.
        """
        if op not in get_args(ReduceOp):
            raise InputError(f"op {op!r} is not known: it must be 'average' or 'sum'")
        if gradient.dtype != np.float32 or gradient.ndim != 1 or not gradient.flags.c_contiguous:
            raise InputError("a gradient must be a flat, contiguous array of float32")
        key = tuple((str(name), int(size)) for name, size in layout) or (("", len(gradient)),)
        if sum(size for _, size in key) != len(gradient):
            raise InputError(
                f"a gradient of {len(gradient)} elements does not fit its layout of {sum(s for _, s in key)}"
            )
        # Both now, and not when the part begins: parts of several buckets may run on several threads.
        memory, settings = self._memory(key), self._settled(len(gradient))
        return self._part(gradient, key, memory, settings, self.workers if op == "average" else 1)

    def _part(self, gradient: Values, key: Key, memory: _Memory, settings: Compression, divisor: int) -> Part[Pairs]:
        watch = Watch(memory.expected, memory.rooms)
        flat, velocity, wrong = _accumulated(gradient, memory, settings)
        sums = (
            None if settings.method == "dense" or velocity is not None else Sums(watch, gradient, memory.residual, flat)
        )
        task = Task(
            self.rank,
            self.workers,
            Ledger(flat, settings.residuals),
            Quota(len(gradient), settings.density_at(memory.calls), _layers(key) if settings.per_layer else ()),
            settings.values,
            dict(memory.method),
            watch,
            Note(self.rank, wrong) if wrong >= 0 else None,
            sums,
        )
        if settings.method != "spardl":
            task.complete()
        total = yield from settings.part(task)
        self._refuse_what_is_not_finite(task, total, key)
        if not task.is_settled:
            task.ledger.settle(total.index)
        if velocity is not None:
            for index in task.ledger.delivered(total.index):
                velocity[index] = 0
            memory.velocity = velocity
        memory.residual, memory.spare = flat, memory.residual
        memory.method, memory.expected, memory.rooms = task.memory, watch.following, watch.rooms
        memory.calls += 1
        # The next call writes to where this one found its elements, and a lone worker's result may be just those.
        return (total if self.workers > 1 else total.copy()).divided(divisor)

    def _settled(self, elements: int) -> Compression:
        settings, choice = self.compression.for_workers(self.workers, elements, self._network, self._cost)
        if choice is not None:
            self.choices[elements] = choice
        return settings

    def _refuse_what_is_not_finite(self, task: Task, total: Pairs, key: Key) -> None:
        if self.compression.method == "dense":
            return
        rank, index = (-1, -1) if task.note is None else (task.note.rank, task.note.index)
        if task.note is None:
            at = first_not_finite(total.value)
            if at < 0:
                return
            index = int(total.index[at])
        start = 0
        for name, size in key:
            if start <= index < start + size:
                raise NotFiniteError(rank, index, f"{name}, element {index - start}" if name else "")
            start += size
        raise NotFiniteError(rank, index)

    def _memory(self, key: Key) -> _Memory:
        """The memory of a bucket; a new bucket takes over what is remembered of its parameters elsewhere."""
        if key in self._buckets:
            return self._buckets[key]
        names = [name for name, _ in key]
        if len(set(names)) < len(names):
            raise InputError(f"a bucket has a parameter twice: {names}")
        elements = sum(size for _, size in key)
        velocity = np.zeros(elements, np.float32) if self.compression.momentum else None
        made = _Memory(np.zeros(elements, np.float32), velocity, 0)
        calls, at = [], 0
        for name, size in key:
            known = self._taken(name, size)
            if known is not None:
                made.residual[at : at + size] = known["residual"]
                if velocity is not None and known.get("velocity") is not None:
                    velocity[at : at + size] = known["velocity"]
                calls.append(int(known["calls"]))
            at += size
        made.calls = min(calls) if len(calls) == len(key) else 0
        made.method = self._methods.pop(_text(key), {})
        self._keep(key, made)
        return made

    def _keep(self, key: Key, memory: _Memory) -> None:
        self._buckets[key] = memory
        at = 0
        for name, size in key:
            self._home[name] = key, at
            at += size

    def _taken(self, name: str, size: int) -> dict[str, Any] | None:
        """What is remembered of a parameter, which goes to another bucket now."""
        known = self._loose.pop(name, None)
        if name in self._home:
            key = self._home[name][0]
            known = self._about(name)
            self._drop(key)
            self._loose.pop(name, None)
        if known is not None and len(known["residual"]) != size:
            raise InputError(
                f"parameter {name!r} has {size} elements, but {len(known['residual'])} are remembered of it: this state is "
                "another model's"
            )
        return known

    def _about(self, name: str) -> dict[str, Any]:
        key, at = self._home[name]
        memory, size = self._buckets[key], dict(key)[name]
        velocity = None if memory.velocity is None else memory.velocity[at : at + size].copy()
        return {"residual": memory.residual[at : at + size].copy(), "velocity": velocity, "calls": memory.calls}

    def _drop(self, key: Key) -> None:
        """Forget a bucket, but nothing about its parameters."""
        for name, _ in key:
            self._loose[name] = self._about(name)
            del self._home[name]
        del self._buckets[key]

    def residual(self, name: str = "") -> Values:
        """What is left over of a parameter; a copy."""
        if name in self._home:
            found: Values = self._about(name)["residual"]
            return found
        if name in self._loose:
            return np.array(self._loose[name]["residual"], np.float32)
        raise InputError(f"nothing is remembered of a parameter {name!r}")

    def state_dict(self) -> dict[str, Any]:
        """All that is remembered, as plain values and arrays."""
        parameters = {name: dict(known) for name, known in self._loose.items()}
        parameters |= {name: self._about(name) for name in self._home}
        methods = {_text(key): dict(memory.method) for key, memory in self._buckets.items() if memory.method}
        return {
            "weft_error_feedback": VERSION,
            "rank": self.rank,
            "workers": self.workers,
            "parameters": parameters,
            "methods": methods | {text: dict(known) for text, known in self._methods.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on as saved, with the same worker of as many; what was remembered before is forgotten."""
        if state.get("weft_error_feedback") != VERSION:
            raise InputError(f"this is not a state of version {VERSION}: save ErrorFeedback.state_dict()")
        if (state["rank"], state["workers"]) != (self.rank, self.workers):
            raise InputError(
                f"this is the state of rank {state['rank']} of {state['workers']}, not of rank {self.rank} of {self.workers}: "
                "every rank loads its own"
            )
        self._buckets, self._home = {}, {}
        self._loose = {
            name: {
                "residual": np.array(known["residual"], np.float32),
                "velocity": None if known["velocity"] is None else np.array(known["velocity"], np.float32),
                "calls": int(known["calls"]),
            }
            for name, known in state["parameters"].items()
        }
        self._methods = {text: dict(known) for text, known in state["methods"].items()}


def _text(key: Key) -> str:
    return ",".join(f"{name}:{size}" for name, size in key)


def _accumulated(gradient: Values, memory: _Memory, settings: Compression) -> tuple[Values, Values | None, int]:
    """Memory for gradient and residual, the new velocity if there is one, and where the first number is that is none, or -1.

    With momentum they are added up here, else later (``Sums``). With such a number the sum is zero: a worker that has one takes
    part with nothing but a note.
    """
    flat = memory.spare if memory.spare is not None else np.empty(len(gradient), np.float32)
    memory.spare, velocity, wrong = None, None, -1
    if settings.method == "dense":
        flat[:] = gradient
    elif memory.velocity is not None:
        velocity = gradient.copy()
        wrong = accumulate_with_momentum(velocity, memory.velocity, settings.momentum, memory.residual, flat)
    if wrong >= 0:
        flat[:] = 0
    return flat, velocity, wrong


def _layers(key: Key) -> tuple[int, ...]:
    """Where parameters begin, but for empty ones."""
    starts = running_sums((size for _, size in key), initial=0)
    return tuple(start for start, (_, size) in zip(starts, key, strict=False) if size)
