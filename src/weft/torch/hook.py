"""comm_hook: averages the buckets of torch's DistributedDataParallel by a plan, for those who keep it.

ddp.register_comm_hook(wt.HookState(plan), wt.comm_hook)
ddp.register_comm_hook(wt.HookState(plan), default_hooks.fp16_compress_wrapper(wt.comm_hook))
"""

# Annotations must be objects here, not text: DistributedDataParallel compares them.
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from weft.errors import InputError
from weft.torch.choice import Choice, Given
from weft.torch.flights import Averaging, Flight
from weft.torch.memory import ParameterMemory
from weft.torch.statistics import StepStatistics, Tally

VERSION = 1


class HookState:
    """How buckets are averaged, and what is remembered of every parameter.

    ``plan`` is a ``Plan`` or several for different sizes, a ``Schedule``, the path of a plan file, or ``"backend"``. With
    ``named_parameters`` what is remembered is saved under their names.
    """

    def __init__(
        self,
        plan: Given,
        *,
        group: dist.ProcessGroup | None = None,
        weights: Sequence[float] | None = None,
        timeout: float | None = None,
        named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    ) -> None:
        self.averaging = Averaging(Choice.of(plan), group, weights, timeout)
        self.memory = ParameterMemory(named_parameters)
        self._flights: list[Flight] = []
        self._tally = Tally()

    def launch(self, bucket: GradBucket) -> Flight:
        """Start to average a bucket."""
        for remembered in self.memory.of(bucket.parameters()):
            remembered.averaged += 1
        flight = self.averaging.launch(bucket.buffer())
        self._flights.append(flight)
        if bucket.is_last():
            self._tally_up(passes=1)
        return flight

    def _tally_up(self, passes: int) -> None:
        """Count what has ended; what is still in flight is counted the next time."""
        ended = [flight for flight in self._flights if flight.ended]
        self._flights = [flight for flight in self._flights if not flight.ended]
        intervals = [(flight.begun, flight.ended) for flight in ended]
        self._tally.add(intervals, 0.0, sum(flight.bytes_sent for flight in ended), passes)

    def take_statistics(self) -> StepStatistics:
        """What has been sent since this was last called. How much of it was exposed only DistributedDataParallel knows."""
        self._tally_up(passes=0)
        return self._tally.take()

    def state_dict(self) -> dict[str, Any]:
        """The plan as text, and what is remembered: plain values and tensors, which torch.load reads with weights_only."""
        return {"weft_hook": VERSION, "plan": self.averaging.choice.to_text(), "parameters": self.memory.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on as saved: with its plan, which is proved again, and all that was remembered."""
        if state.get("weft_hook") != VERSION:
            raise InputError(f"this is not the state of a hook in version {VERSION}: save HookState.state_dict()")
        choice = Choice.parse(state["plan"])
        choice.check(self.averaging.ranks)
        self.memory.load_state_dict(state["parameters"])
        self.averaging.choice = choice


def comm_hook(state: HookState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The bucket, averaged over all ranks."""
    return future_of(state.launch(bucket), bucket.buffer())


class OnItsWay(Protocol):
    """Something that ends."""

    def wait(self) -> None: ...

    def when_done(self, call: Callable[[], None]) -> None: ...


def future_of(flight: OnItsWay, buffer: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
    """The buffer, when what fills it has ended; or what went wrong."""
    ended: torch.futures.Future[None] = torch.futures.Future()

    def average(_: object) -> torch.Tensor:
        flight.wait()  # has ended, so this only raises what went wrong
        return buffer

    averaged = ended.then(average)
    flight.when_done(lambda: ended.set_result(None))
    return averaged


def noop_hook(state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:  # noqa: ARG001
    """The bucket as it is: how fast training would be without communication. Its results are of no use."""
    unchanged: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    unchanged.set_result(bucket.buffer())
    return unchanged
