from __future__ import annotations

import pytest

from weft import ProofError, Schedule, Transfer, verify
from weft.collectives import parameter_server, ring
from weft.network import full_mesh, two_tier


def schedule(workers: int, lines: list[str], participants: tuple[int, ...] | None = None) -> Schedule:
    people = f"participants {' '.join(map(str, participants))}\n" if participants else ""
    return Schedule.parse(f"weft schedule 1\nworkers {workers}\n{people}chunks 1\n" + "\n".join(lines) + "\n")


def test_a_proof_says_what_was_proved() -> None:
    proof = verify(ring(full_mesh(5)))
    assert (proof.workers, proof.participants, proof.chunks, proof.transfers) == (5, 5, 5, 40)
    assert proof.digest == ring(full_mesh(5)).digest


def test_a_missing_contribution_is_named() -> None:
    with pytest.raises(
        ProofError, match=r"chunk 0: worker 0 ends with the contribution of worker 1 not at all; no transfer brings"
    ):
        verify(schedule(2, ["0>1 reduce 0"]))


def test_a_doubled_contribution_is_named_with_the_transfer_that_doubled_it() -> None:
    lines = ["1>0 reduce 0", "2>0 reduce 0", "1>2 reduce 0", "2>0 reduce 0", "0>1 copy 0", "0>2 copy 0"]
    with pytest.raises(
        ProofError,
        match=r"worker 0 ends with the contribution of worker 1 more than once; .*transfer 3 \(2>0 reduce 0\)",
    ):
        verify(schedule(3, lines))


def test_what_is_doubled_and_then_written_over_does_no_harm() -> None:
    verify(schedule(3, ["1>0 reduce 0", "2>0 reduce 0", "0>1 reduce 0", "0>1 copy 0", "0>2 copy 0"]))


def test_a_relay_contributes_nothing_and_need_not_end_with_anything() -> None:
    lines = ["0>1 reduce 0", "1>2 reduce 0", "2>1 copy 0", "1>0 copy 0"]
    verify(schedule(3, lines, participants=(0, 2)))
    with pytest.raises(ProofError, match="contribution of worker 1"):
        verify(schedule(3, ["0>2 reduce 0", "2>0 copy 0"]))


def test_one_worker_needs_nothing() -> None:
    assert verify(schedule(1, [])).transfers == 0


def test_a_reduction_in_place_of_a_copy_is_caught() -> None:
    good = parameter_server(two_tier(2, 3))
    transfers = list(good)
    first_copy = next(i for i, t in enumerate(transfers) if t.op == "copy")
    t = transfers[first_copy]
    transfers[first_copy] = Transfer(t.source, t.destination, t.chunk, "reduce")
    with pytest.raises(ProofError, match="more than once"):
        verify(Schedule.of_transfers(6, 6, transfers))


def test_more_than_64_workers_are_proved_word_by_word() -> None:
    good = ring(full_mesh(130))
    verify(good)
    transfers = [t for t in good if (t.source, t.chunk) != (77, 5)]
    with pytest.raises(ProofError, match="chunk 5"):
        verify(Schedule.of_transfers(130, 130, transfers))
