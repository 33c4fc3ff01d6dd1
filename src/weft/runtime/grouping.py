"""Groups at work on one transport: every rank executes what its own group does, and all of them count as one execution.

No group is created anywhere: a group's schedule is one for all ranks in which only the group takes part. All ranks enter every
round, those who are alone in it too, so they count alike; what they agree on is the round's subject, and a failure in one
group ends the others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch

from weft.errors import InputError
from weft.groups import Round
from weft.groups.timing import sent_schedule
from weft.runtime.communicator import TAGS, Communicator, pool
from weft.runtime.deadline import Term
from weft.runtime.execution import Execution
from weft.runtime.program import Incoming, Outgoing, Program, program_of
from weft.runtime.running import Running
from weft.schedule import Schedule


def group_program(which: Round, schedule: Schedule | None, rank: int, workers: int, elements: int) -> Program:
    """What a rank does in a round; ``schedule`` is its group's, None where it is alone or the round says who sends to whom."""
    if which.sends:
        return _sent_program(which.sends, rank, workers, elements)
    if schedule is None:
        return _nothing(workers, rank, elements)
    check_alone(schedule)
    return program_of(schedule, rank, elements)


def check_alone(schedule: Schedule) -> None:
    """Refuse a group's schedule that passes through others: they are at work in groups of their own."""
    ends = set(np.unique(schedule.source).tolist()) | set(np.unique(schedule.destination).tolist())
    others = sorted(ends - set(schedule.participants))
    if others:
        raise InputError(
            f"{schedule.name} of the ranks {schedule.participants} passes through rank {others[0]}, which has a group of its own "
            "at the same time: take another collective for groups"
        )


@lru_cache(maxsize=1024)
def _nothing(workers: int, rank: int, elements: int) -> Program:
    return Program(Schedule.of(workers, 1, [], [], [], [], participants=[rank]), rank, elements, (), (), {}, {})


@lru_cache(maxsize=1024)
def _sent_program(sends: tuple[tuple[int, int], ...], rank: int, workers: int, elements: int) -> Program:
    """The whole tensor to some and from others; what comes is added when ours has left."""
    schedule = sent_schedule(workers, sends)
    leaving = [(t, destination) for t, (source, destination) in enumerate(sends) if source == rank]
    coming = [(t, source) for t, (source, destination) in enumerate(sends) if destination == rank]
    outgoing = tuple(Outgoing(peer, t, 0, elements, ()) for t, peer in leaving)
    guards = tuple(range(len(outgoing)))
    # One after the other, in the order of ranks, so that the result is the same in every run.
    incoming = tuple(
        Incoming(peer, t, 0, elements, False, False, (i - 1,) if i else (), guards, ())
        for i, (t, peer) in enumerate(coming)
    )
    return Program(
        schedule, rank, elements, incoming, outgoing, {message.peer: (i,) for i, message in enumerate(incoming)},
        {message.peer: (o,) for o, message in enumerate(outgoing)},
    )  # fmt: skip


def launch_in_group(
    us: Communicator, which: Round, schedule: Schedule | None, flat: torch.Tensor, subject: str,
    timeout: float | None = None,
) -> Running:  # fmt: skip
    """Start to average a contiguous tensor in place, as a round says. All ranks do so in the same order."""
    rank = us.transport.rank
    program = group_program(which, schedule, rank, us.transport.size, flat.numel())
    heard = len(which.heard_by(rank))

    def made(number: int, term: Term, ended: Callable[[Exception | None], bool]) -> Running:
        if heard > 1:
            flat.div_(heard)
        execution = Execution(program, flat, us.transport, number % TAGS, us.scratch, term, ended)
        return Running(us, execution, number, subject)

    running = us.enter(subject, timeout, made)
    running.execution.run(pool, False)
    return running
