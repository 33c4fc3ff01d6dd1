"""ASP and SSP: parameter servers on some ranks, by default on all; every worker pushes gradients and pulls parameters.

All trained parameters are one line of numbers, of which every server owns a part. A worker sends each server its part of the
gradient and gets that part of the parameters back. The server applies a gradient when it comes, divided by the number of
workers, by the worker's own optimizer and learning rate, and answers when the worker may go on: at once (ASP), or when the
slowest is near enough (SSP). A server waits for each worker on a thread of its own; what it gets are numbers, nothing else.

A pause is a moment at which nothing is on its way: every worker asks for it after one of its steps, goes on when all have, and
pulls the parameters of that moment. Whoever pauses holds nobody up. So there is a state that can be saved.

Who is lost: a worker that owns no part and is gone (its connections are closed) is left out, and training goes on without it (a
warning says so). A server takes a part of the parameters with it: then every worker raises an error that names it, in its next
step at the latest. Who is stopped or cut off closes nothing, and with gloo nobody can give up a wait without losing all
connections; so it cannot be left out, and all others raise an error that names it. Vigils (``runtime/vigil.py``) notice it: an
answer, or a worker's next push, that takes 20 times as long as the slowest lately, and at least 10 s, has the roll called. If all
answer, waiting goes on, for some may test or write a checkpoint for long.
"""

from __future__ import annotations

import copy
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from threading import Condition, Event
from time import monotonic
from typing import Any

import torch

from weft.errors import InputError
from weft.runtime.communicator import TAGS, Communicator, pool
from weft.runtime.ending import StoppedError
from weft.runtime.transport import Pending, TransportError
from weft.strategies import Serving, StalenessClock
from weft.torch.late import ELEMENTWISE
from weft.torch.statistics import Tally

PUSH, ANSWER = TAGS, TAGS + 1
"""tags; those of executions are below"""
MEANWHILE = 0.5
"""seconds between two looks at whether all was given up, for who waits for no message"""
LATER = 5.0
"""seconds after the limit, at which the watch ends all waits anyway: with gloo, who waits in vain loses all connections"""
LONG = 1e7
"""seconds: for ever, as gloo can count it"""
STEP, LAST, PAUSE = 0.0, 1.0, 2.0
"""what a message is: a step's gradient, that there is none any more, or that there is none before everybody has paused"""
NAMES = {STEP: "a step", LAST: "the last step", PAUSE: "a pause"}
_log = logging.getLogger("weft")


class Part:
    """A server's part of the parameters, with the optimizer that applies what workers push, and who may go on."""

    def __init__(
        self,
        values: torch.Tensor,
        optimizer: torch.optim.Optimizer,
        workers: Sequence[int],
        bound: int | None,
        given_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self._given_up = given_up
        self.values = torch.nn.Parameter(values.clone())
        self.values.grad = torch.zeros_like(self.values)
        self._optimizer = stepping(optimizer, self.values)
        self._count = len(workers)
        self.clock = StalenessClock(tuple(workers), bound)
        self._changed = Condition()
        self._waiting: set[int] = set()
        self._begins: dict[int, torch.Tensor] = {}
        """the parameters with which workers may begin another step"""
        self._paused: dict[int, int] = {}
        """of workers that pause, the number that they told"""
        self._resumed: dict[int, tuple[int, torch.Tensor]] = {}
        self.furthest = 0
        """steps by which anybody was ever ahead of the slowest when it began another one"""

    def push(self, worker: int, gradient: torch.Tensor, rate: float) -> torch.Tensor:
        """Apply a gradient; the parameters with which the worker may go on, as soon as it may."""
        with self._changed:
            assert self.values.grad is not None
            torch.div(gradient, self._count, out=self.values.grad)
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._optimizer.step()
            self.clock.finish(worker)
            self._waiting.add(worker)
            self._release()
            self._await(lambda: worker in self._begins)
            return self._begins.pop(worker)

    def leave(self, worker: int) -> torch.Tensor:
        """A worker has no gradients any more; the parameters when nobody has."""
        with self._changed:
            self._forget(worker)
            self._await(lambda: not self.clock.finished and not self._paused)
            return self.values.detach().clone()

    def pause(self, worker: int, told: int) -> tuple[int, torch.Tensor]:
        """Wait until all pause: the number that the first of them told, and the parameters."""
        with self._changed:
            del self.clock.finished[worker]
            self._paused[worker] = told
            self._release()
            self._await(lambda: worker in self._resumed)
            return self._resumed.pop(worker)

    def state(self) -> dict[str, Any]:
        """While all pause."""
        return {"values": self.values.detach().clone(), "optimizer": self._optimizer.state_dict()}

    @torch.no_grad()
    def restore(self, state: dict[str, Any]) -> None:
        self.values.copy_(state["values"])
        self._optimizer.load_state_dict(state["optimizer"])

    def lose(self, worker: int) -> None:
        """A worker is gone."""
        with self._changed:
            self._forget(worker)

    def _await(self, happened: Callable[[], bool]) -> None:
        while not self._changed.wait_for(happened, MEANWHILE):
            if self._given_up():
                raise StoppedError

    def _forget(self, worker: int) -> None:
        """Nobody waits for it any more."""
        self.clock.finished.pop(worker, None)
        self._paused.pop(worker, None)
        self._waiting.discard(worker)
        self._release()

    def _release(self) -> None:
        """Whoever may go on does so with the parameters of this moment, whenever its thread wakes up."""
        ready = [worker for worker in sorted(self._waiting) if self.clock.may_begin(worker)]
        if ready:
            self.furthest = max(self.furthest, *(self.clock.finished[worker] - self.clock.slowest for worker in ready))
            self._begins |= dict.fromkeys(ready, self.values.detach().clone())
            self._waiting.difference_update(ready)
        if self._paused and not self.clock.finished:
            # All begin anew, so steps count from here on.
            self.clock.finished |= dict.fromkeys(self._paused, 0)
            self._resumed = dict.fromkeys(self._paused, (self._paused[min(self._paused)], self.values.detach().clone()))
            self._paused = {}
        self._changed.notify_all()


def stepping(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> torch.optim.Optimizer:
    """An optimizer with the same options for one parameter."""
    if type(optimizer) not in ELEMENTWISE:
        raise InputError(
            f"{type(optimizer).__name__} may need whole parameters, and a server has parts of them: take SGD, Adam or AdamW"
        )
    if len(optimizer.param_groups) != 1:
        raise InputError(f"{len(optimizer.param_groups)} groups of parameters have no common server: make them one")
    made = copy.copy(optimizer)
    made.state = defaultdict(dict)
    made.param_groups = [{**optimizer.param_groups[0], "params": [parameter]}]
    return made


class Served:
    """A worker, and its part as a server if it has one."""

    def __init__(
        self,
        named: Sequence[tuple[str, torch.nn.Parameter]],
        optimizer: torch.optim.Optimizer,
        strategy: Serving,
        us: Communicator,
        timeout: float | None,
    ) -> None:
        self.tally = Tally()
        self.parameters = [parameter for _, parameter in named]
        if len({(p.dtype, p.device) for p in self.parameters}) != 1:
            raise InputError("parameters of several types or devices have no common server: convert them to one")
        self._us, self._transport, self._optimizer = us, us.transport, optimizer
        self._timeout = timeout
        if not self._transport.keeps_tags_apart:
            raise InputError(f"{strategy.name} needs messages that wait for nothing else, as gloo has them: use gloo")
        self.servers = servers_of(strategy)
        elements = sum(p.numel() for p in self.parameters)
        cuts = [i * elements // len(self.servers) for i in range(len(self.servers) + 1)]
        self._cuts = dict(zip(self.servers, pairwise(cuts), strict=True))
        self.lost: list[int] = []
        self._number = torch.zeros(len(self.servers), dtype=torch.float64)
        self._flat = torch.empty(elements, dtype=self.parameters[0].dtype, device=self.parameters[0].device)
        self.part: Part | None = None
        self._ended: dict[int, Event] = {}
        """of every worker that is served here, whether it needs nothing any more"""
        rank = self._transport.rank
        if rank in self.servers:
            start, stop = self._cuts[rank]
            self.part = Part(self._line()[start:stop], optimizer, strategy.workers, strategy.bound, us.has_failed)
            for worker in strategy.workers:
                if worker != rank:
                    self._ended[worker] = Event()
                    pool.run(lambda worker=worker: self._serve(worker, stop - start))  # type: ignore[misc]

    def _line(self) -> torch.Tensor:
        return torch.cat([p.detach().reshape(-1) for p in self.parameters])

    # The worker

    def step(self) -> None:
        """Push what backward passes have computed, and pull."""
        begun = monotonic()
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        torch.cat([gradient.reshape(-1) for gradient in gradients], out=self._flat)
        rate = float(self._optimizer.param_groups[0]["lr"])
        sent = self._exchange(STEP, rate)
        self.tally.add([(begun, monotonic())], monotonic() - begun, sent)

    def finish(self) -> None:
        """Nothing comes from this worker any more; its parameters are the last ones when nothing comes from anybody."""
        self._exchange(LAST, 0.0)
        with self._us.vigil("that all have their last parameters", timeout=self._timeout) as term:
            for ended in self._ended.values():
                while not ended.wait(MEANWHILE) and term.left() > 0:
                    self._check()

    def pause(self, number: int) -> int:
        """Wait until all workers pause, and pull; the number that the first of them gave."""
        self._exchange(PAUSE, float(number))
        return int(self._number.max())

    def state(self) -> dict[str, Any] | None:
        """Of this rank's part, while all pause."""
        return None if self.part is None else self.part.state()

    def restore(self, state: dict[str, Any] | None) -> None:
        """Go on as saved; all ranks do so together, before their first steps."""
        if (state is None) != (self.part is None):
            raise InputError("other ranks were servers when this was saved: start with as many servers as then")
        if self.part is not None and state is not None:
            self.part.restore(state)
        self.pause(0)

    def _exchange(self, kind: float, rate: float) -> int:
        self._check()
        arriving, sent = torch.empty_like(self._flat), 0
        try:
            with self._us.vigil(f"parameters after {NAMES[kind]}", timeout=self._timeout) as term:
                head = torch.tensor([kind, rate], dtype=torch.float64)
                flying, sent = self._posted(head, arriving)
                self._take_part(kind, rate, arriving)
                for server, pending in flying:
                    with self._us.vigil("its part of the parameters", server, endless=True):
                        pending.wait(term.left() + LATER)
        except TransportError as error:
            self._give_up(error)
        except StoppedError:
            pass
        self._check()
        self._take(arriving)
        return sent

    def _posted(self, head: torch.Tensor, arriving: torch.Tensor) -> tuple[list[tuple[int, Pending]], int]:
        """What comes from all other servers and goes to them, on its way; and how many bytes of gradients do."""
        kind, sent = head[0].item(), 0
        sends: list[tuple[int, Pending]] = []
        receives: list[tuple[int, Pending]] = []
        for place, (server, (start, stop)) in enumerate(self._cuts.items()):
            if server == self._transport.rank:
                continue
            receives.append((server, self._transport.receive(arriving[start:stop], server, ANSWER)))
            if kind == PAUSE:
                receives.append((server, self._transport.receive(self._number[place : place + 1], server, ANSWER)))
            sends.append((server, self._transport.send(head, server, PUSH)))
            if kind == STEP:
                sends.append((server, self._transport.send(self._flat[start:stop], server, PUSH)))
                sent += (stop - start) * self._flat.element_size()
        return [*receives, *sends], sent

    def _take_part(self, kind: float, rate: float, arriving: torch.Tensor) -> None:
        """The same with this rank's own part."""
        if self.part is None:
            return
        start, stop = self._cuts[rank := self._transport.rank]
        if kind == STEP:
            arriving[start:stop] = self.part.push(rank, self._flat[start:stop], rate)
        elif kind == PAUSE:
            self._number[self.servers.index(rank)], arriving[start:stop] = self.part.pause(rank, int(rate))
        else:
            arriving[start:stop] = self.part.leave(rank)

    @torch.no_grad()
    def _take(self, line: torch.Tensor) -> None:
        parts = torch.split(line, [p.numel() for p in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))

    def _check(self) -> None:
        if self._us.has_failed():
            raise self._us.error()

    def _give_up(self, error: TransportError) -> None:
        """A server is lost, or somebody else is and that was told by closing connections: all ranks end."""
        if not self._us.has_failed(look=True):
            what = f"server {error.peer} {'does not answer' if error.late else 'is gone'} ({error.reason})"
            advice = "start again from a checkpoint, with fewer servers if workers are lost often"
            self._us.fail(f"{what}, and its part of the parameters with it: {advice}", [error.peer])

    # The server

    def _serve(self, worker: int, elements: int) -> None:
        """Answer one worker until it is done, or gone."""
        head = torch.empty(2, dtype=torch.float64)
        gradient = torch.empty(elements, dtype=self._flat.dtype)
        kind = STEP
        try:
            while kind != LAST:
                self._await("next push", worker, self._transport.receive(head, worker, PUSH))
                kind, rate = head.tolist()
                if kind == STEP:
                    self._await("gradient", worker, self._transport.receive(gradient, worker, PUSH))
                for answer in self._answers(kind, worker, gradient, rate):
                    self._await("taking an answer", worker, self._transport.send(answer, worker, ANSWER))
        except StoppedError:
            pass
        except TransportError as error:
            if kind != LAST:  # who is done may leave
                self._lose(worker, error)
        finally:
            self._ended[worker].set()

    def _await(self, what: str, worker: int, pending: Pending) -> None:
        with self._us.vigil(what, worker, endless=True):
            pending.wait(LONG)

    def _answers(self, kind: float, worker: int, gradient: torch.Tensor, rate: float) -> list[torch.Tensor]:
        """What a worker gets, as soon as it may."""
        assert self.part is not None
        if kind == LAST:
            return [self.part.leave(worker)]
        if kind == PAUSE:
            number, values = self.part.pause(worker, int(rate))
            return [values, torch.tensor([float(number)], dtype=torch.float64)]
        return [self.part.push(worker, gradient, rate)]

    def _lose(self, worker: int, error: TransportError) -> None:
        """A worker is gone. With a part of the parameters, that is everybody's failure."""
        assert self.part is not None
        if worker in self.servers:
            self._give_up(error)
        elif not self._us.has_failed(look=True):
            self._us.leave_out(worker)
            self.lost.append(worker)
            self.part.lose(worker)
            _log.warning("rank %d is lost (%s): training goes on without it", worker, error.reason)


def servers_of(strategy: Serving) -> tuple[int, ...]:
    """Which of the workers are servers: spread evenly, as they are simulated."""
    workers = strategy.workers
    count = len(workers) if strategy.servers is None else strategy.servers
    if not 1 <= count <= len(workers):
        raise InputError(f"{count} servers are not possible: there must be 1 to {len(workers)}, as servers are workers")
    return tuple(workers[i * len(workers) // count] for i in range(count))
