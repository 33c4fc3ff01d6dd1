"""DataParallel: a model whose gradients are averaged over all ranks during the backward pass, in the way the network likes.

It takes the place of torch's DistributedDataParallel, in the same training loop; checkpoints of one can be read by the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import torch
import torch.distributed as dist

from weft.errors import InputError
from weft.overlap.arrangement import Arrangement
from weft.overlap.merging import BUCKET_BYTES
from weft.runtime.communicators import communicator
from weft.runtime.contribution import DTYPES
from weft.torch.alike import agree_on, give_to_all, signature
from weft.torch.arrangement import by_size
from weft.torch.choice import BACKEND, Choice, Given
from weft.torch.compressing import Compress, SparseAveraging, averaging_of, compress_of, flat_for_planning
from weft.torch.deciding import Decision, decided, network_of
from weft.torch.recording import side_by_side
from weft.torch.sparse import SparseStatistics
from weft.torch.statistics import StepStatistics
from weft.torch.synchronizer import Synchronizer, Unused
from weft.torch.tuning import AUTO, Overlap, Tuning, scheduler_of
from weft.trace import Trace
from weft.units import format_bytes

if TYPE_CHECKING:
    from weft.network import Network

DEFAULT = "default"
LADDER = (32_768, 524_288, 8_388_608)
"""Sizes that are planned for, besides that of all gradients together, while it is open how they are going to be divided."""
MOST_LINES = 6
"""about buckets, in a report"""
JOINING_SECONDS = 600.0
"""How late ranks may be when a model is wrapped, or another plan is taken."""


class DataParallel(torch.nn.Module):
    """Wraps a module; every rank does so, with the same module and the same options.

    - ``plan``: ``"auto"`` measures and plans when the model is wrapped, and keeps the plan where it is faster than the backend;
      ``"backend"``, a ``Plan`` or several for different sizes, a ``Schedule`` or the path of a plan file are used as they are.
    - ``overlap``: which gradients leave together, and which buckets at once. ``"auto"`` profiles the first steps, tries what
      looks best in real ones and keeps the fastest, and does so again when steps change; the name of a scheduler (``"search"``,
      ``"asc-wfbp"``, ``"mg-wfbp"``, ``"wfbp"``, ``"fixed-size"``, ``"one-bucket"``) profiles and takes what that makes; an
      ``Arrangement`` is used as it is; ``None`` stands for buckets of ``bucket_bytes``. The default is ``"auto"`` where
      the plan is and ``bucket_bytes`` is not given, and ``None`` otherwise.
    - ``compress``: ``None``; ``"fp16"`` or ``"bf16"``, which round gradients to half the bytes when they are sent and add them up
      in float32; the name of a sparse method (``"spardl"``, ``"topk-a"``, ``"topk-dsa"``, ``"gtopk"``, ``"ok-topk"``), or a
      ``weft.sparse.Compression``, which says more about it. These send the strongest hundredth of every bucket, or whatever
      their density is, and keep the rest for later: every rank saves its own ``compress_state_dict()``.
    - ``unused``: with ``"error"`` a parameter that has no part in the loss is an error that names it; with ``"zeros"`` it
      counts as zero on that rank, and keeps its gradient (or none) if no rank used it.
    - ``weights``: one number per rank, such as the sizes of uneven batches, for a weighted average.
    - ``broadcast_buffers``: rank 0's buffers are given to all before a forward pass that follows a synchronized one.
    - ``network``: a ``Network`` or its file, instead of measuring, for ``plan="auto"``.
    - ``timeout``: seconds that an average may take; otherwise made from measured times.

    Gradients lie in the memory of buckets, which is written again in the next backward pass: copy what is to be kept.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        plan: Given | Literal["auto"] = "auto",
        *,
        overlap: str | Arrangement | None = DEFAULT,
        bucket_bytes: int | None = None,
        compress: Compress = None,
        group: dist.ProcessGroup | None = None,
        unused: Unused = "error",
        weights: Sequence[float] | None = None,
        broadcast_buffers: bool = True,
        network: Network | str | Path | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        named = _trainable(module)
        self.module = module
        self.broadcast_buffers = broadcast_buffers
        self._group, self._network = group, network_of(network)
        self._timeout = timeout
        self._us = communicator(group, named[0][1].device)
        choice = Choice.of(BACKEND if plan == "auto" else plan)
        self.compress = compress_of(compress)
        averaging = averaging_of(self.compress, choice, group, weights, timeout, self._network)
        if overlap == DEFAULT:
            overlap = AUTO if plan == "auto" and bucket_bytes is None else None
        if isinstance(overlap, str):
            overlap = scheduler_of(overlap)
        size = BUCKET_BYTES if bucket_bytes is None else bucket_bytes
        first = overlap if isinstance(overlap, Arrangement) else by_size([p for _, p in named], size)
        self._synchronizer = Synchronizer(named, first, averaging, unused)
        self._trained = [(name, parameter, parameter.requires_grad) for name, parameter in module.named_parameters()]
        self._agree_on(
            f"data-parallel training of {signature(module)}, in {len(self.buckets)} buckets of up to {size} bytes, "
            f"overlap {overlap}, compress {self.compress}, "
            f"{unused=}, {averaging.weights=}, {broadcast_buffers=}, plan {'auto' if plan == 'auto' else choice.digest}"
        )
        give_to_all([*module.parameters(), *module.buffers()], group, timeout)
        self._buffers_are_due = True
        self.wait_late = False
        """for a ``LateOptimizer``: whether averages may arrive in the next forward pass, except while computing is timed"""
        self.decision = Decision(choice, (f"{averaging.named(choice)}, as asked for",))
        if isinstance(averaging, SparseAveraging) and averaging.ranks > 1:
            _ = averaging.state  # all ranks are here: it may measure
        self._tuning: Tuning | None = None
        self._tunes = isinstance(overlap, str) and averaging.ranks > 1
        if plan == "auto" and not isinstance(averaging, SparseAveraging):
            self.replan()
        if self._tunes and isinstance(overlap, str):
            self._tuning = Tuning(overlap, self._synchronizer, self._us, group, self._agree_on)
            self._synchronizer.when_passed = self._tuning.passed

    @property
    def buckets(self) -> tuple[int, ...]:
        """The bytes of every bucket, in the order in which they leave."""
        return tuple(bucket.flat.nbytes for bucket in self._synchronizer.buckets)

    @property
    def arrangement(self) -> Arrangement:
        """Which gradients are sent together, and when."""
        return self._synchronizer.arrangement

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """What the module makes of the inputs."""
        self._synchronizer.check_idle()
        self._synchronizer.late = self.wait_late and not self._synchronizer.held
        self._check_still_trained()
        if self.broadcast_buffers and self._buffers_are_due and self._synchronizer.averaging.ranks > 1:
            give_to_all(self.module.buffers(), self._group, self._timeout)
        begun = monotonic()
        made = self.module(*inputs, **options)
        self._synchronizer.recorder.forward(begun)
        self._buffers_are_due = torch.is_grad_enabled() and self._synchronizer.enabled
        return made

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here accumulate gradients on this rank alone; the next one outside averages the sums."""
        before = self._synchronizer.enabled
        self._synchronizer.enabled = False
        try:
            yield
        finally:
            self._synchronizer.enabled = before

    def use(self, plan: Given) -> None:
        """Take another plan from the next backward pass on; all ranks call this between the same two."""
        choice = Choice.of(plan)
        self._check_planned()
        self._switch(Decision(choice, (f"{choice}, as asked for",)))

    def replan(self, network: Network | str | Path | None = None) -> Decision:
        """Measure the network, or take this one, plan and decide again; all ranks call this between the same two passes."""
        synchronizer = self._synchronizer
        synchronizer.check_idle()
        self._check_planned()
        flats = [flat_for_planning(bucket.flat, self.compress) for bucket in synchronizer.buckets]
        if self._tunes:
            whole = torch.zeros(sum(flat.numel() for flat in flats), dtype=flats[0].dtype, device=flats[0].device)
            flats = [whole[: size // whole.element_size()] for size in LADDER if 2 * size < whole.nbytes] + [whole]
        known = network_of(network) or self._network
        found = decided(flats, synchronizer.averaging, self._group, known, together=not self._tunes)
        self._switch(found)
        return found

    def arrange(self, arrangement: Arrangement) -> None:
        """Other buckets, from the next backward pass on, for good; all ranks call this between the same two."""
        arrangement.check(len(self._synchronizer.parameters))
        self._agree_on(f"buckets {arrangement}")
        self._tuning, self._tunes = None, False
        self._synchronizer.when_passed, self._synchronizer.held = lambda _: None, False
        self._synchronizer.arrange(arrangement)

    def _check_planned(self) -> None:
        if isinstance(self._synchronizer.averaging, SparseAveraging):
            raise InputError(f"{self.compress} sends parts of gradients in its own way: there is no plan to change")

    def compress_state_dict(self) -> dict[str, Any]:
        """What this rank has not sent yet, by parameter, for ``load_compress_state_dict``; empty where nothing is kept."""
        averaging = self._synchronizer.averaging
        self.settle()
        return averaging.state_dict() if isinstance(averaging, SparseAveraging) else {}

    def load_compress_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on as saved by the same rank of as many; between two passes."""
        averaging = self._synchronizer.averaging
        self._synchronizer.check_idle()
        self.settle()
        if isinstance(averaging, SparseAveraging) and state:
            averaging.load_state_dict(state)
        elif state:
            raise InputError(
                f"compress={self.compress} keeps nothing, and a state was given: compress as when it was saved"
            )

    def take_compress_statistics(self) -> SparseStatistics | None:
        """What selecting and sending has cost since this was last called; None where everything is sent."""
        averaging = self._synchronizer.averaging
        return averaging.take_statistics() if isinstance(averaging, SparseAveraging) else None

    @property
    def choice(self) -> Choice:
        """Which plan each size takes now."""
        return self._synchronizer.averaging.choice

    @property
    def settled_arrangement(self) -> Arrangement | None:
        """The arrangement; None while the best one is still being found out."""
        return self.arrangement if self._tuning is None or self._tuning.settled else None

    @property
    def overlap(self) -> Overlap | None:
        """What was found out and decided about buckets; None as long as nothing is, or if nothing had to be."""
        return None if self._tuning is None else self._tuning.overlap

    def step_trace(self) -> Trace | None:
        """The last step as it was on this rank, beside the one that was predicted, if one was; None before the first."""
        us = self._synchronizer
        if us.recorder.last is None or len(us.recorder.last.flights) != len(us.buckets):
            return None
        traces = {"measured": us.recorder.last.trace(us.names, us.buckets)}
        if self.overlap is not None:
            traces["predicted"] = self.overlap.predicted.trace
        return side_by_side(traces)

    def settle(self, places: Iterable[int] | None = None) -> None:
        """Return when averages that a ``LateOptimizer`` has not waited for are there, and its step is done; for all, or for some.

        ``places`` are those of parameters in ``trained_parameters``.
        """
        self._synchronizer.settle(places)

    @property
    def trained_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        """All whose gradients are averaged, by name."""
        return list(zip(self._synchronizer.names, self._synchronizer.parameters, strict=True))

    def bucket_parameters(self, b: int) -> list[torch.nn.Parameter]:
        return self._synchronizer.buckets[b].parameters

    def update_late(self, when_there: Callable[[int, bool], None]) -> None:
        """For a ``LateOptimizer``: what to call when averages are there."""
        self._synchronizer.when_there = when_there
        for module in (self, self.module):
            module.register_state_dict_pre_hook(lambda *_: self.settle())  # type: ignore[no-untyped-call]

    @property
    def is_late(self) -> bool:
        """Whether averages of the last backward pass may still be on their way."""
        return self._synchronizer.is_late

    def take_statistics(self) -> StepStatistics:
        """What synchronization has cost since this was last called."""
        return self._synchronizer.tally.take()

    def report(self) -> str:
        """The buckets, how each is averaged, and why, in words."""
        buckets, averaging = self._synchronizer.buckets, self._synchronizer.averaging
        count = f"{len(self.buckets)} bucket{'s' if len(self.buckets) > 1 else ''}"
        lines = [f"{count} among {self._synchronizer.averaging.ranks} ranks"]
        lines += [
            f"  bucket {number}: {format_bytes(bucket.flat.nbytes)}, {averaging.name_of(bucket.flat)}"
            for number, bucket in enumerate(buckets[:MOST_LINES])
        ]
        if len(self.buckets) > MOST_LINES:
            rest = self.buckets[MOST_LINES:]
            lines.append(f"  {len(rest)} more, of {format_bytes(min(rest))} to {format_bytes(max(rest))}")
        found = () if self.overlap is None else self.overlap.reasons
        if isinstance(averaging, SparseAveraging):
            lines += [choice.reason for choice in averaging.state.team_choices.values()][:MOST_LINES]
        return "\n".join([*lines, *self.decision.reasons, *found])

    def _switch(self, decision: Decision) -> None:
        self._synchronizer.check_idle()
        decision.choice.check(self._synchronizer.averaging.ranks)
        self._agree_on(f"averages by {decision.choice} {decision.choice.digest}")
        self._synchronizer.averaging.choice = decision.choice
        self.decision = decision
        if self._tuning is not None:
            self._tuning.restart()

    def _agree_on(self, subject: str) -> None:
        agree_on(self._us, subject, JOINING_SECONDS)

    def _check_still_trained(self) -> None:
        changed = [name for name, parameter, was in self._trained if parameter.requires_grad and not was]
        if changed:
            raise InputError(
                f"{', '.join(map(repr, changed))} did not require a gradient when the model was wrapped, so it would not be "
                "averaged: wrap model.module again"
            )

    def __getattr__(self, name: str) -> Any:
        """What the wrapper does not have, the module may."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module":
                raise
            return getattr(self.module, name)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """A copy would have no hooks, and train on its own without a word."""
        raise InputError("a DataParallel cannot be copied or pickled: copy model.module, or save model.state_dict()")


def _trainable(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    named = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    if not named:
        raise InputError(
            f"{type(module).__name__} has no parameter that requires a gradient: there is nothing to average"
        )
    for name, parameter in named:
        if parameter.dtype not in DTYPES:
            raise InputError(f"parameter {name!r} is {parameter.dtype}: it cannot be averaged")
        if parameter.device != named[0][1].device:
            raise InputError(
                f"parameter {name!r} is on {parameter.device}, {named[0][0]!r} on {named[0][1].device}: use one"
            )
    return named
