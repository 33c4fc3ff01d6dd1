"""Ranks as threads of one process, for tests of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
import torch
from _pytest.mark import ParameterSet

from weft import Schedule
from weft.runtime import Communicator, Deadlines, Faults, FaultyTransport, Transport, loopback


@contextmanager
def communicators(
    size: int, faults: Mapping[int, Faults] | None = None, deadlines: Deadlines | None = None
) -> Iterator[list[Communicator]]:
    """The communicators of so many ranks, some of them with faults; closed in the end."""
    transports: list[Transport] = []
    for rank, good in enumerate(loopback(size)):
        wrong = (faults or {}).get(rank)
        transports.append(good if wrong is None else FaultyTransport(good, wrong))
    everybody = [Communicator(transport, deadlines) for transport in transports]
    try:
        yield everybody
    finally:
        for communicator in everybody:
            communicator.close()
        for transport in transports:
            if isinstance(transport, FaultyTransport):
                transport.close()


def on_every_rank(
    size: int, work: Callable[[int], object], faulty: Mapping[int, FaultyTransport] | None = None
) -> list[Exception | None]:
    """Do this on all ranks at once; what each of them raised. Those with faults may hang until all others have ended."""
    wrong = faulty or {}
    raised: list[Exception | None] = [None] * size

    def attempt(rank: int) -> None:
        try:
            work(rank)
        except Exception as error:
            raised[rank] = error

    threads = [Thread(target=attempt, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for hangs in (False, True):
        for rank, thread in enumerate(threads):
            if (rank in wrong) == hangs:
                thread.join(60)
        for transport in wrong.values():
            transport.close()
    assert not any(thread.is_alive() for thread in threads), "a rank hangs"
    return raised


def reduced(
    schedule: Schedule, tensors: Sequence[torch.Tensor], faults: Mapping[int, Faults] | None = None, **options: Any
) -> list[torch.Tensor]:
    """The tensors after an all-reduce in place; the first error is raised."""
    with communicators(schedule.workers, faults) as everybody:
        errors = on_every_rank(
            schedule.workers,
            lambda rank: everybody[rank].launch(schedule, tensors[rank], here=True, **options).wait(),
        )
    for error in errors:
        if error is not None:
            raise error
    return list(tensors)


def slow(value: str) -> ParameterSet:
    """A value of a parameter that only ``make test-slow`` tries: what is new about it is little, and it takes long."""
    return pytest.param(value, marks=pytest.mark.slow)
