"""The proof that a schedule is an all-reduce.

The schedule is run on sets instead of numbers: every worker starts with its own contribution to every chunk, a copy
hands a set on, a reduction joins two. At the end every participant must hold every contribution exactly once.

A set is a row of bits, kept twice: contributions that are there, and contributions that are there more than once. One
chunk at a time, so that the bits of all workers stay in the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.compiled import compiled
from weft.errors import ProofError
from weft.schedule import COPY, Ints, Longs, Schedule

Bits = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved, and of which schedule."""

    digest: str
    workers: int
    participants: int
    chunks: int
    transfers: int


def verify(schedule: Schedule) -> Proof:
    """Prove that every participant ends with every contribution exactly once in every chunk, or raise ``ProofError``."""
    single = schedule.expanded()
    order = np.argsort(single.chunk, kind="stable")
    start = np.zeros(len(schedule.chunk_weights) + 1, dtype=np.int64)
    np.cumsum(np.bincount(single.chunk, minlength=len(schedule.chunk_weights)), out=start[1:])
    participates = np.zeros(schedule.workers, dtype=np.bool_)
    participates[list(schedule.participants)] = True
    chunk, worker, contribution, doubled = _first_fault(
        schedule.workers, participates, start, single.source[order], single.destination[order], single.op[order],
        single.exchanges[order],
    )  # fmt: skip
    if chunk >= 0:
        raise ProofError(_explained(single, int(chunk), int(worker), int(contribution), bool(doubled)))
    people = len(schedule.participants)
    return Proof(schedule.digest, schedule.workers, people, len(schedule.chunk_weights), len(schedule))


def _explained(schedule: Schedule, chunk: int, worker: int, contribution: int, doubled: bool) -> str:
    what = "more than once" if doubled else "not at all"
    text = f"chunk {chunk}: worker {worker} ends with the contribution of worker {contribution} {what}"
    if doubled:
        i = _doubling_transfer(schedule, chunk, contribution)
        text += f"; it was doubled by transfer {i} ({schedule[i]})" if i is not None else ""
    elif not ((schedule.destination == worker) & (schedule.chunk == chunk)).any():
        text += "; no transfer brings this chunk to it"
    return text


def _doubling_transfer(schedule: Schedule, chunk: int, contribution: int) -> int | None:
    """The first transfer in a chunk that adds a contribution to a sum which has it already."""
    counts = [0] * schedule.workers
    counts[contribution] = 1
    before = list(counts)
    for i in np.flatnonzero(schedule.chunk == chunk).tolist():
        source, destination = int(schedule.source[i]), int(schedule.destination[i])
        sent = before[source] if schedule.exchanges[i] else counts[source]
        before = list(counts)
        if schedule.op[i] == COPY:
            counts[destination] = sent
        elif counts[destination] and sent:
            return i
        else:
            counts[destination] += sent
    return None


@compiled
def _first_fault(
    workers: int, participates: NDArray[np.bool_], start: Longs, source: Ints, destination: Ints, op: NDArray[np.uint8],
    second: NDArray[np.bool_],
) -> tuple[int, int, int, bool]:  # fmt: skip
    """The first chunk, worker and contribution that are wrong, and whether it is there twice; chunk -1 if none is."""
    words = (workers + 63) // 64
    full = np.zeros(words, dtype=np.uint64)
    for w in range(workers):
        if participates[w]:
            full[w >> 6] |= np.uint64(1) << np.uint64(w & 63)
    once = np.empty((workers, words), dtype=np.uint64)
    twice = np.empty((workers, words), dtype=np.uint64)
    for chunk in range(len(start) - 1):
        once[:] = np.uint64(0)
        twice[:] = np.uint64(0)
        for w in range(workers):
            if participates[w]:
                once[w, w >> 6] = np.uint64(1) << np.uint64(w & 63)
        for i in range(start[chunk], start[chunk + 1]):
            s, d = source[i], destination[i]
            if second[i]:
                # Both sides of an exchange hold the same: the sum of what each held before.
                once[d], twice[d] = once[s], twice[s]
            elif op[i] == COPY:
                once[d], twice[d] = once[s], twice[s]
            else:
                for k in range(words):
                    twice[d, k] |= twice[s, k] | (once[d, k] & once[s, k])
                    once[d, k] |= once[s, k]
        for w in range(workers):
            if participates[w]:
                for k in range(words):
                    wrong = (once[w, k] ^ full[k]) | twice[w, k]
                    if wrong:
                        bit = 0
                        while not (wrong >> np.uint64(bit)) & np.uint64(1):
                            bit += 1
                        return chunk, w, k * 64 + bit, (twice[w, k] >> np.uint64(bit)) & np.uint64(1) != 0
    return -1, -1, -1, False
