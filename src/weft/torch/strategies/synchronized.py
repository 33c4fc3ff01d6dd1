"""Synchronized: a model and its optimizer, trained by any strategy: one argument says which.

model = wt.Synchronized(module, optimizer, "ds-sync", network="cluster.yaml")
for inputs, targets in batches:
    optimizer.zero_grad()
    loss(model(inputs), targets).backward()
    model.step()                                    # instead of optimizer.step()
with model.merged():                                # what all ranks together have learned
    evaluate(model.module)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from weft.errors import InputError
from weft.groups import GroupTimes, consensus
from weft.network import Network, full_mesh
from weft.runtime.communicators import communicator
from weft.runtime.contribution import DTYPES
from weft.runtime.probe import probe
from weft.schedule import Schedule
from weft.strategies import Averaging, Options, Strategy, strategy_of
from weft.torch.alike import agree_on, give_to_all, signature
from weft.torch.data_parallel import DataParallel
from weft.torch.late import ELEMENTWISE
from weft.torch.statistics import StepStatistics
from weft.torch.strategies.averager import Averager
from weft.torch.strategies.awaiting import Awaiting
from weft.torch.strategies.merging import merged_into
from weft.torch.strategies.parameters import BUCKET_BYTES
from weft.torch.strategies.serving import Served

JOINING_SECONDS = 600.0


class Synchronized(torch.nn.Module):
    """Wraps a module and its optimizer; every rank does so, alike. ``step`` takes the place of the optimizer's.

    - ``strategy``: ``"bsp"``, ``"ds-sync"``, ``"gossip"``, ``"local-sgd"``, ``"asp"`` or ``"ssp"``, with ``options``.
    - ``network``: a ``Network`` or its file. Left out, ds-sync and local-sgd measure it; the others need none.
    - ``in_backward``: whether parameters are updated in the backward pass and leave at once; by default, wherever the optimizer
      treats every parameter by itself. Gradients must then not be changed between ``backward`` and ``step``.
    - ``bucket_bytes``: how many bytes of parameters are averaged at once.
    - ``collective``: how groups average, by name; by default the fastest of a few, for every group.
    - ``given``: schedules for those who take part in them.
    - ``timeout``: seconds that an average, or an answer of a parameter server, may take.

    ``bsp`` is ``DataParallel``, with its defaults and ``plan``. Each rank keeps its own optimizer state and buffers.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        strategy: str = "bsp",
        *,
        options: Options | None = None,
        network: Network | str | Path | None = None,
        in_backward: bool | None = None,
        bucket_bytes: int = BUCKET_BYTES,
        collective: str | None = None,
        given: Sequence[Schedule] = (),
        plan: Any = "auto",
        group: dist.ProcessGroup | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__()
        self.module = module
        self.optimizer = optimizer
        self._group, self._timeout = group, timeout
        named = _trained(module, optimizer)
        known = _network(network, strategy, group)
        self.network = known
        found = strategy_of(strategy, known, options)
        self._check_workers(known, found.name)
        early = type(optimizer) in ELEMENTWISE if in_backward is None else in_backward
        if in_backward and type(optimizer) not in ELEMENTWISE:
            raise InputError(
                f"{type(optimizer).__name__} may need all gradients at once, so it cannot step in the backward pass"
            )
        us = communicator(group, named[0][1].device)
        subject = f"training of {signature(module)} by {found}, {early=}, buckets of {bucket_bytes} bytes, on {_digest(known)}"
        agree_on(us, subject, JOINING_SECONDS)
        give_to_all([*module.parameters(), *module.buffers()], group, JOINING_SECONDS)
        self._wrapped: torch.nn.Module = module
        self._parallel: DataParallel | None = None
        self._averager: Averager | None = None
        self._served: Served | None = None
        if not isinstance(found, Averaging):
            self._served = Served(named, optimizer, found, us, timeout)
        elif found.what == "gradients":
            self._parallel = DataParallel(
                module, plan, group=group, network=network if plan == "auto" else None, timeout=timeout,
                broadcast_buffers=False,
            )  # fmt: skip
            self._wrapped = self._parallel
        else:
            nbytes = sum(p.numel() * p.element_size() for _, p in named)
            times = GroupTimes(known, nbytes / found.parts, collective=collective, given=tuple(given))
            self._averager = Averager(
                named, optimizer, found, times, us, group,
                bucket_bytes=bucket_bytes, in_backward=early, timeout=timeout,
            )  # fmt: skip
            places = {id(p): place for place, (_, p) in enumerate(named)}
            Awaiting(module, places, self._averager.settle)
        self._strategy = found

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        """What the module makes of the inputs, with the parameters that this rank has now."""
        return self._wrapped(*inputs, **keywords)

    def step(self) -> None:
        """Have the optimizer's step done, with whatever the strategy exchanges around it."""
        if self._averager is not None:
            self._averager.step()
        elif self._served is not None:
            self._served.step()
        else:
            self.optimizer.step()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here accumulate gradients on this rank alone; the next one outside goes on as always."""
        if self._parallel is not None:
            with self._parallel.no_sync():
                yield
            return
        ours = self._averager
        before = ours is None or ours.enabled
        if ours is not None:
            ours.enabled = False
        try:
            yield
        finally:
            if ours is not None:
                ours.enabled = before

    @property
    def strategy(self) -> Strategy:
        """As it is now: the pattern of ds-sync follows what is slow."""
        return self._strategy if self._averager is None else self._averager.strategy

    @property
    def averager(self) -> Averager | None:
        """Where parameters are averaged in groups."""
        return self._averager

    @property
    def adjustments(self) -> list[tuple[int, str]]:
        """After which steps the pattern was changed, and who was slow then."""
        return [] if self._averager is None else list(self._averager.adjustments)

    def settle(self) -> None:
        """Return when all parameters are there."""
        if self._averager is not None:
            self._averager.settle()

    def finish(self) -> None:
        """At the end of asp and ssp: wait for all others, and have the servers' parameters. Nothing else needs it."""
        if self._served is not None:
            self._served.finish()

    @contextmanager
    def merged(self) -> Iterator[bool]:
        """Inside, the module's parameters are what all ranks together have learned; afterwards each has its own again.

        That is the mean of all ranks' parameters, or of their exponential averages where the strategy keeps these. Yields
        whether it is the latter: then nobody has ever run this model, so batch normalization needs new statistics; otherwise
        buffers are the means of all ranks' while this lasts. All ranks call this together.
        """
        self.settle()
        averages = None if self._averager is None else self._averager.averages
        buckets = () if self._averager is None else self._averager.buckets
        with merged_into(self.module, buckets, averages, self._group):
            yield averages is not None

    def take_statistics(self) -> StepStatistics:
        """What synchronization has cost since this was last called; of what is still on its way, the bytes alone."""
        if self._parallel is not None:
            return self._parallel.take_statistics()
        ours = self._averager or self._served
        assert ours is not None
        return ours.tally.take()

    def pause(self, number: int = 0) -> int:
        """In asp and ssp: wait until all ranks are here, between their steps, and pull. The number that rank 0 gave."""
        return number if self._served is None else self._served.pause(number)

    def local_state(self) -> dict[str, Any]:
        """All that this rank has for itself: plain values and tensors, which torch.load reads with weights_only.

        In asp and ssp all ranks call it between two calls of ``pause``: otherwise gradients may be on their way.
        """
        own = None if self._averager is None else self._averager.state()
        served = None if self._served is None else self._served.state()
        return {
            "module": self.module.state_dict(), "optimizer": self.optimizer.state_dict(), "averager": own, "served": served,
        }  # fmt: skip

    def load_local_state(self, state: dict[str, Any]) -> None:
        """Go on as the same rank has saved; all ranks call this together."""
        self.settle()
        self.module.load_state_dict(state["module"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self._averager is not None and state["averager"] is not None:
            self._averager.restore(state["averager"])
        if self._served is not None:
            self._served.restore(state["served"])

    def report(self) -> str:
        """The strategy in words."""
        if self._parallel is not None:
            return self._parallel.report()
        if not isinstance(self.strategy, Averaging):
            bound = "nobody waits" if self.strategy.bound is None else f"at most {self.strategy.bound} steps ahead"
            return f"{self.strategy.name}: {len(self.strategy.workers)} workers around parameter servers, {bound}"
        lines = [f"{self.strategy.name}: {consensus(self.strategy.pattern)}"]
        lines += [f"from step {step} on: {slow}" for step, slow in self.adjustments]
        return "\n".join(lines)

    def _check_workers(self, network: Network, name: str) -> None:
        world = dist.get_world_size(self._group)
        if len(network.workers) != world or len(network.active) != world:
            raise InputError(
                f"{name} on {network.name!r}: the network has {len(network.active)} active workers, and {world} train"
            )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """A copy would have no hooks, and train on its own without a word."""
        raise InputError(
            "a Synchronized model cannot be copied or pickled: copy model.module, or save its state_dict()"
        )


def _trained(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[tuple[str, torch.nn.Parameter]]:
    named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    if not named:
        raise InputError(
            f"{type(module).__name__} has no parameter that requires a gradient: there is nothing to train"
        )
    ids = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for name, parameter in named:
        if id(parameter) not in ids:
            raise InputError(
                f"parameter {name!r} is not the optimizer's: give it all, or freeze it with requires_grad_(False)"
            )
        if parameter.dtype not in DTYPES:
            raise InputError(f"parameter {name!r} is {parameter.dtype}: it cannot be averaged")
    return named


def _network(given: Network | str | Path | None, strategy: str, group: dist.ProcessGroup | None) -> Network:
    if isinstance(given, Network):
        return given
    if given is not None:
        return Network.load(given)
    ranks = dist.get_world_size(group)
    if strategy.replace("_", "-") in ("ds-sync", "local-sgd") and ranks > 1:
        return probe(group).network
    return full_mesh(ranks)


def _digest(network: Network) -> str:
    return sha256(network.to_yaml().encode()).hexdigest()[:16]
