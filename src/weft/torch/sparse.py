"""Sparse synchronization in a training script: only the strongest part of every gradient is sent, the rest later.

    state = wt.SparseState(Compression("spardl", density=0.01), named_parameters=model.named_parameters())
    wt.sparse_all_reduce(tensor, state)                     # in place, the average of all ranks' strongest elements
    ddp.register_comm_hook(state, wt.sparse_hook)           # for those who keep DistributedDataParallel

What a rank has not sent is kept by parameter, in its own memory: every rank saves its own ``state.state_dict()``.
"""

# Annotations must be objects here, not text: DistributedDataParallel compares them.
import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, Literal, overload

import numpy as np
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from weft.errors import InputError
from weft.network import Network
from weft.runtime.communicators import communicator
from weft.runtime.conversing import RunningPart, launch_part
from weft.sparse.compilation import compile_method
from weft.sparse.compression import Compression
from weft.sparse.feedback import ErrorFeedback, Layout, ReduceOp
from weft.sparse.memory import converse
from weft.sparse.pairs import Pairs, Values, scatter
from weft.sparse.rounds import Part
from weft.sparse.teams import AlphaBeta, TeamChoice
from weft.torch.alpha_beta import measured_alpha_beta
from weft.torch.hook import future_of

VERSION = 1
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class SparseStatistics:
    """Since somebody last asked: sums, on this rank."""

    calls: int
    bytes_sent: int
    computing_seconds: float
    """selecting, adding up, putting into bytes"""
    waiting_seconds: float
    """from the moment at which a round's messages were given away until those of the others were there"""


class SparseRunning:
    """A tensor that is being reduced."""

    def __init__(self, settle: Callable[[], None], running: RunningPart[None] | None) -> None:
        self._settle, self._running = settle, running
        self.begun = monotonic()
        self._ended = 0.0 if running is not None else self.begun

    @property
    def ended(self) -> float:
        """When, on the clock of time.monotonic; 0 while it has not."""
        return self._ended if self._running is None else float(self._running.execution.ended)

    @property
    def bytes_sent(self) -> int:
        """By this rank, so far."""
        return 0 if self._running is None else int(self._running.execution.bytes_sent)

    def wait(self) -> None:
        """Return when the tensor holds the result; raise ``PeerError``, or ``NotFiniteError`` on all ranks, if it cannot be."""
        if self._running is not None:
            self._running.result()
        self._settle()

    def when_done(self, call: Callable[[], None]) -> None:
        """Call this when it has ended, well or not, on some thread; at once if it has. It must not raise."""
        if self._running is None:
            call()
        else:
            self._running.execution.when_done(call)


class SparseState:
    """How gradients are made sparse, and what is kept of every parameter.

    With ``named_parameters`` it is kept under their names, else under the order in which they are first seen. ``network`` is what
    teams="auto" chooses for, or ``cost``; without either it is measured, by all ranks, which then make their states together.
    ``timeout`` (seconds) overrides the deadline that is otherwise made from measured times.
    """

    def __init__(
        self,
        compression: Compression,
        *,
        group: dist.ProcessGroup | None = None,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
        network: Network | None = None,
        cost: AlphaBeta | None = None,
        timeout: float | None = None,
    ) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise InputError("torch.distributed is not set up: call torch.distributed.init_process_group first")
        self.compression, self.timeout = compression, timeout
        self._group = group
        compression.check_workers(dist.get_world_size(group))
        compile_method(compression)
        if compression.teams == "auto" and compression.method == "spardl" and network is None and cost is None:
            cost = measured_alpha_beta(communicator(group), group)
        self.cost = cost
        self.feedback = ErrorFeedback(
            compression, dist.get_rank(group), dist.get_world_size(group), network=network, cost=cost
        )
        self._named = named_parameters is not None
        self._names = {parameter: name for name, parameter in named_parameters or ()}
        self._lock = Lock()
        self._spent = SparseStatistics(0, 0, 0.0, 0.0)

    @property
    def team_choices(self) -> dict[int, TeamChoice]:
        """Why there are so many teams, by the number of elements, if that was left open."""
        return self.feedback.choices

    def layout_of(self, parameters: Sequence[torch.Tensor]) -> Layout:
        """Names and sizes of a bucket's parameters."""
        return [(self._name(parameter), parameter.numel()) for parameter in parameters]

    def _name(self, parameter: torch.Tensor) -> str:
        if parameter not in self._names:
            if self._named:
                raise InputError(f"a parameter of shape {tuple(parameter.shape)} is not among the named ones: name all")
            self._names[parameter] = str(len(self._names))
        return self._names[parameter]

    def launch(
        self, tensor: torch.Tensor, layout: Layout, op: ReduceOp = "average", here: bool = False
    ) -> SparseRunning:
        """Start to reduce a tensor in place. All ranks do so in the same order; until its end it must not be touched."""
        if tensor.dtype not in DTYPES:
            names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
            raise InputError(f"a tensor of {tensor.dtype} cannot be reduced: convert it to one of {names}")
        flat = tensor.detach().reshape(-1)
        gradient: Values = flat.to("cpu", torch.float32).contiguous().numpy()
        part = self.feedback.part(gradient, layout, op)
        is_copy = gradient.ctypes.data != tensor.data_ptr()
        there: list[bool] = []

        def kept() -> Part[None]:
            _put(gradient, (yield from part))
            there.append(True)

        def settle() -> None:
            if there and is_copy:
                tensor.detach().copy_(torch.from_numpy(gradient).view(tensor.shape))

        if self.feedback.workers == 1:
            begun = monotonic()
            converse([kept()])
            self._count(0, monotonic() - begun, 0.0)
            return SparseRunning(settle, None)
        dtype = str(tensor.dtype).removeprefix("torch.")
        subject = f"sparse {op} of {tensor.numel()} {dtype} by {self.compression}"
        running = launch_part(communicator(self._group), kept(), subject, timeout=self.timeout, here=here)
        execution = running.execution
        execution.when_done(lambda: self._count(execution.bytes_sent, execution.computing, execution.waiting))
        return SparseRunning(settle, running)

    def _count(self, nbytes: int, computing: float, waiting: float) -> None:
        with self._lock:
            spent = self._spent
            self._spent = SparseStatistics(
                spent.calls + 1,
                spent.bytes_sent + nbytes,
                spent.computing_seconds + computing,
                spent.waiting_seconds + waiting,
            )

    def take_statistics(self) -> SparseStatistics:
        """What calls that have ended have cost since this was last called."""
        with self._lock:
            taken, self._spent = self._spent, SparseStatistics(0, 0, 0.0, 0.0)
        return taken

    def state_dict(self) -> dict[str, Any]:
        """What this rank has not sent yet: plain values and tensors, which torch.load reads with weights_only."""
        return {"weft_sparse": VERSION, "feedback": _with_tensors(self.feedback.state_dict())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on as saved by the same rank of as many."""
        if state.get("weft_sparse") != VERSION:
            raise InputError(f"this is not a sparse state of version {VERSION}: save SparseState.state_dict()")
        self.feedback.load_state_dict(_with_arrays(state["feedback"]))


@overload
def sparse_all_reduce(
    tensor: torch.Tensor, state: SparseState, op: ReduceOp = ..., *, name: str = ..., async_op: Literal[False] = ...
) -> None: ...


@overload
def sparse_all_reduce(
    tensor: torch.Tensor, state: SparseState, op: ReduceOp = ..., *, name: str = ..., async_op: Literal[True]
) -> SparseRunning: ...


def sparse_all_reduce(
    tensor: torch.Tensor, state: SparseState, op: ReduceOp = "average", *, name: str = "", async_op: bool = False
) -> SparseRunning | None:
    """Replace a tensor, on every rank, by the average or the sum of the ranks' strongest elements, zero elsewhere.

    All ranks call it in the same order with tensors of the same size and type. What is not sent is kept in ``state`` under
    ``name`` and added to the next tensor of that name. With ``async_op`` it returns at once, with something to ``wait`` for.
    If a rank fails, all raise ``weft.errors.PeerError``; if a tensor is infinite or NaN somewhere, all raise
    ``NotFiniteError``; the tensor and what is kept are then as before.
    """
    running = state.launch(tensor, [(name, tensor.numel())], op, here=not async_op)
    if async_op:
        return running
    running.wait()
    return None


def sparse_hook(state: SparseState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The bucket, averaged over all ranks where it is strongest."""
    buffer: torch.Tensor = bucket.buffer()
    return future_of(state.launch(buffer, state.layout_of(bucket.parameters())), buffer)


def _put(gradient: Values, result: Pairs) -> None:
    """Write the result over the gradient. The system's own way to clear memory does not read it first, numpy's does."""
    ctypes.memset(gradient.ctypes.data, 0, gradient.nbytes)
    scatter(gradient, result)


def _with_tensors(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_tensors(inner) for key, inner in value.items()}
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _with_arrays(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_arrays(inner) for key, inner in value.items()}
    return value.numpy() if isinstance(value, torch.Tensor) else value
