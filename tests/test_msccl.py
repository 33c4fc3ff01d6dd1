"""MSCCL documents: what is written proves itself when it is read back, and what is broken does not."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import InputError, ProofError, Schedule, ScheduleError, Transfer, verify
from weft.collectives import COLLECTIVES, butterfly, halving_doubling, parameter_server, ring
from weft.msccl import from_msccl, to_msccl
from weft.msccl.document import MOST_COUNT, After, Block, Gpu, Program, Range, Step, text_of
from weft.msccl.execution import executed
from weft.msccl.export import units_of
from weft.msccl.parsing import program_of
from weft.network import full_mesh, two_tier


@cache
def document(name: str, workers: int, segments: int = 1) -> str:
    return to_msccl(COLLECTIVES[name](full_mesh(workers)).segmented(segments))


def traffic(schedule: Schedule) -> dict[tuple[int, int], float]:
    """What every pair of workers moves, in tensors."""
    total: dict[tuple[int, int], float] = defaultdict(float)
    for transfer, size in zip(schedule, schedule.transfer_bytes(1.0).tolist(), strict=True):
        total[transfer.source, transfer.destination] += size
    return total


def ends(schedule: Schedule, elements: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """What the schedule makes of different whole numbers at every worker: rows are workers."""
    values = (np.arange(schedule.workers * elements, dtype=np.int64) ** 2 + 7).reshape(schedule.workers, elements)
    cuts = schedule.boundaries(elements)
    before = values.copy()
    for transfer, second in zip(schedule, schedule.exchanges, strict=True):
        part = slice(cuts[transfer.chunk], cuts[transfer.chunk + transfer.span])
        sent = (before if second else values)[transfer.source, part].copy()
        before = values.copy()
        values[transfer.destination, part] = sent + (
            values[transfer.destination, part] if transfer.op == "reduce" else 0
        )
    return values


@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("workers", range(2, 10))
@pytest.mark.parametrize("name", COLLECTIVES)
def test_what_is_written_is_proved_when_read_back_and_moves_the_same(name: str, workers: int, segments: int) -> None:
    schedule = COLLECTIVES[name](full_mesh(workers)).segmented(segments)
    again = from_msccl(to_msccl(schedule, most_units=8192))
    verify(again)
    before, after = traffic(schedule), traffic(again)
    assert before.keys() == after.keys()
    assert all(math.isclose(before[pair], after[pair]) for pair in before)


@pytest.mark.parametrize("name", ["ring", "hierarchical", "plink", "blueconnect", "rat", "butterfly"])
def test_racks_are_no_obstacle(name: str) -> None:
    schedule = COLLECTIVES[name](two_tier(3, 3, oversubscription=4)).segmented(2)
    again = from_msccl(to_msccl(schedule))
    verify(again)
    assert traffic(again) == pytest.approx(traffic(schedule))
    elements = 2 * int(again.chunk_weights.sum())
    assert (ends(again, elements) == ends(schedule, elements)).all()


@pytest.mark.parametrize("proto", ["Simple", "LL", "LL128"])
def test_the_header_says_what_was_asked_for(proto: str) -> None:
    text = to_msccl(
        ring(full_mesh(4)), name="my_ring", proto=proto, min_bytes=1024, max_bytes=1 << 20, out_of_place=False
    )
    assert text.startswith(
        f'<algo name="my_ring" proto="{proto}" nchannels="1" nchunksperloop="4" ngpus="4" coll="allreduce" '
        'inplace="1" outofplace="0" minBytes="1024" maxBytes="1048576">\n'
    )
    assert from_msccl(text).name == "my_ring"


def test_a_ring_of_two_is_written_as_expected() -> None:
    lines = [line.strip() for line in to_msccl(ring(full_mesh(2))).splitlines()]
    assert lines[1:14] == [
        '<gpu id="0" i_chunks="2" o_chunks="2" s_chunks="0">',
        '<tb id="0" send="1" recv="-1" chan="0">',
        '<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>',
        '<step s="1" type="s" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="1" deps="0" hasdep="0"/>',
        "</tb>",
        '<tb id="1" send="-1" recv="1" chan="0">',
        '<step s="0" type="rrc" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="1"/>',
        '<step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="0" deps="0" hasdep="0"/>',
        "</tb>",
        "</gpu>",
        '<gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0">',
        '<tb id="0" send="-1" recv="0" chan="0">',
        '<step s="0" type="rrc" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>',
    ]


@pytest.mark.parametrize("name", ["ring", "butterfly", "blink", "parameter-server", "double-binary-tree"])
@pytest.mark.parametrize("segments", [1, 8])
def test_documents_keep_the_limits_of_rccl(name: str, segments: int) -> None:
    text = document(name, 9, segments)
    program = program_of(text)
    assert not re.search(r"[\t&?]|<!", text)
    for gpu in program.gpus:
        for block in gpu.blocks:
            assert len(block.steps) <= 64
            assert block.channel < 32
            for step, following in zip(block.steps, [*block.steps[1:], None], strict=True):
                assert step.count <= MOST_COUNT
                if step.kind == "nop":
                    assert step.after is not None
                    assert following is not None
                    assert following.after is not None


def test_a_pair_that_needs_more_steps_than_a_block_has_uses_further_channels() -> None:
    schedule = ring(full_mesh(9)).segmented(12)
    program = program_of(to_msccl(schedule))
    channels = {block.channel for gpu in program.gpus for block in gpu.blocks}
    assert channels == {0, 1, 2, 3}
    assert all(len(block.steps) <= 64 for gpu in program.gpus for block in gpu.blocks)
    verify(from_msccl(text_of(program)))
    wide = program_of(to_msccl(schedule, most_steps=256))
    assert {block.channel for gpu in wide.gpus for block in gpu.blocks} == {0}


def test_more_than_32_peers_use_a_second_channel() -> None:
    text = to_msccl(parameter_server(full_mesh(40), 1), most_steps=256)
    assert {block.channel for gpu in program_of(text).gpus for block in gpu.blocks} == {0, 1}
    verify(from_msccl(text))


@pytest.mark.parametrize("workers", [2, 3, 4, 6, 8])
def test_exchanges_end_even_if_a_connection_holds_one_message(workers: int) -> None:
    schedule = butterfly(full_mesh(workers))
    heavy = Schedule.of(
        workers, [3, 2], schedule.source, schedule.destination, schedule.chunk, schedule.op,
        np.full(len(schedule), 2, dtype=np.int32),
    )  # fmt: skip
    text = to_msccl(heavy)
    program = program_of(text)
    assert executed(program, slots=1)
    # A unit each: at large sizes a step of several is several messages, and both sides would wait for the other.
    kinds = {"s", "rrc"}
    if workers in (2, 4, 8):
        steps = [step for gpu in program.gpus for block in gpu.blocks for step in block.steps]
        assert {step.count for step in steps if step.kind in kinds} == {1}
    verify(from_msccl(text))


@pytest.mark.parametrize("name", COLLECTIVES)
def test_documents_without_exchanges_end_with_one_slot_too(name: str) -> None:
    assert executed(program_of(document(name, 7, 2)), slots=1)


# Weights


def test_weights_become_units_by_their_greatest_common_divisor() -> None:
    assert units_of([6, 4, 0, 2], 1024) == [3, 2, 0, 1]
    assert units_of([5, 5, 5], 3) == [1, 1, 1]


@given(st.lists(st.integers(0, 1 << 45), min_size=1, max_size=40).filter(any), st.integers(40, 600))
def test_rounded_weights_fill_the_units_and_leave_no_chunk_out(weights: list[int], most: int) -> None:
    units = units_of(weights, most)
    assert sum(units) <= most
    assert all((unit > 0) == (weight > 0) for unit, weight in zip(units, weights, strict=True))
    whole = sum(weights)
    if sum(weights) // math.gcd(*weights) > most:
        assert sum(units) == most
        for unit, weight in zip(units, weights, strict=True):
            # One unit for everybody, so that a share moves by no more than that of those units.
            assert abs(unit / most - weight / whole) <= (len(weights) + 1) / most


def test_heavy_chunks_are_several_steps_and_empty_chunks_none() -> None:
    lines = ["0>1 reduce 0-2", "1>0 copy 0-2"]
    schedule = Schedule.parse("weft schedule 1\nworkers 2\nchunks 150 0 1\n" + "\n".join(lines) + "\n")
    text = to_msccl(schedule)
    assert re.findall(r'cnt="(\d+)"', text) == ["71", "71", "9"] * 4
    again = from_msccl(text)
    verify(again)
    assert int(again.chunk_weights.sum()) == 151


def test_too_fine_weights_are_rounded_and_still_proved() -> None:
    schedule = Schedule.of_transfers(
        2, [10**6 + 1, 10**6], [Transfer(0, 1, 0, "reduce", 2), Transfer(1, 0, 0, "copy", 2)]
    )
    text = to_msccl(schedule, most_units=10)
    assert 'nchunksperloop="10"' in text
    verify(from_msccl(text))


def test_a_span_that_is_partly_written_is_read_from_both_buffers() -> None:
    lines = ["1>0 reduce 0", "0>2 reduce 0-1", "1>2 reduce 1", "2>0 copy 0-1", "2>1 copy 0-1"]
    text = to_msccl(Schedule.parse("weft schedule 1\nworkers 3\nchunks 1 1\n" + "\n".join(lines) + "\n"))
    steps = program_of(text).gpus[0].blocks[1].steps
    assert [(step.kind, step.source, step.count) for step in steps] == [
        ("s", Range("o", 0), 1),
        ("s", Range("i", 1), 1),
    ]
    verify(from_msccl(text))


def test_chunks_of_one_step_that_cannot_stand_together_are_listed_apart() -> None:
    """2 gets all chunks at once, and the middle one has to stand behind one that 2 sent before."""
    lines = ["2>1 reduce 1", "0>2 reduce 0-2", "1>2 reduce 0", "1>2 reduce 2", "0>1 reduce 1", "2>0 copy 0"]
    lines += ["2>0 copy 2", "2>1 copy 0", "2>1 copy 2", "1>2 copy 1", "1>0 copy 1"]
    schedule = Schedule.parse("weft schedule 1\nworkers 3\nchunks 1 1 1\n" + "\n".join(lines) + "\n")
    again = from_msccl(to_msccl(schedule))
    verify(again)
    assert (ends(again, 6) == ends(schedule, 6)).all()


# What cannot be written


def test_relays_one_worker_and_unproved_schedules_are_refused() -> None:
    relay = Schedule.parse(
        "weft schedule 1\nworkers 3\nparticipants 0 2\nchunks 1\n0>1 copy 0\n1>2 reduce 0\n2>1 copy 0\n1>0 copy 0\n"
    )
    with pytest.raises(InputError, match="2 of 3 workers participate"):
        to_msccl(relay)
    with pytest.raises(InputError, match="one worker has nothing to send"):
        to_msccl(ring(full_mesh(1)))
    with pytest.raises(ProofError):
        to_msccl(Schedule.of_transfers(2, 1, [Transfer(0, 1, 0, "reduce")]))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("name", 'a"b'),
        ("name", ""),
        ("proto", "LL64"),
        ("min_bytes", -1),
        ("max_bytes", -1),
        ("most_units", 0),
        ("most_units", 2),
        ("most_steps", 1),
        ("most_steps", 257),
    ],
)
def test_options_out_of_range_are_refused(option: str, value: object) -> None:
    with pytest.raises(InputError):
        to_msccl(ring(full_mesh(3)), **{option: value})  # type: ignore[arg-type]


def test_a_document_must_be_for_some_place() -> None:
    with pytest.raises(InputError, match="never be used"):
        to_msccl(ring(full_mesh(3)), in_place=False, out_of_place=False)


def test_schedules_beyond_the_limits_say_which_and_what_to_do() -> None:
    with pytest.raises(InputError, match=r"more than 128 thread blocks.*fewer peers"):
        to_msccl(parameter_server(full_mesh(70), 1), most_steps=256)
    # A last transfer into the centre of a star has to wait until all the others have been served.
    star = [Transfer(w, 0, 0, "reduce") for w in range(1, 20)] + [Transfer(0, w, 0, "copy") for w in range(1, 20)]
    with pytest.raises(InputError, match=r"1>0 copy 0 waits for 21 thread blocks, and a block has 20 steps"):
        to_msccl(Schedule.of_transfers(20, 1, [*star, Transfer(1, 0, 0, "copy")]), most_steps=20)
    with pytest.raises(InputError, match=r"more than 32 channels.*fewer segments"):
        to_msccl(ring(full_mesh(2)).segmented(600), most_units=4096, most_steps=32)
    with pytest.raises(InputError, match="reads at most 4096: use fewer segments"):
        to_msccl(ring(full_mesh(3)).segmented(600), most_units=4096, most_steps=256)


# Documents as msccl-tools writes them


def steps_of(*steps: tuple[str, str, int, str, int, int]) -> list[Step]:
    return [Step(kind, Range(sb, so), Range(db, do), count) for kind, sb, so, db, do, count in steps]


def fused_ring(workers: int, in_place: bool = True, out_of_place: bool = True) -> Program:
    """One block for each GPU: it receives from the left, adds, and sends on to the right in one step."""
    gpus = []
    for rank in range(workers):
        chunk = [(rank - i) % workers for i in range(workers)]
        steps = [("s", "i", chunk[0], "o", chunk[0], 1)]
        steps += [("rrs", "i", c, "o", c, 1) for c in chunk[1:-1]]
        steps += [("rrcs", "i", chunk[-1], "o", chunk[-1], 1)]
        steps += [("rcs", "i", c, "o", c, 1) for c in chunk[:-2]]
        steps += [("r", "i", chunk[-2], "o", chunk[-2], 1)]
        block = Block((rank + 1) % workers, (rank - 1) % workers, 0, steps_of(*steps))
        gpus.append(Gpu({"i": workers, "o": workers, "s": 0}, [block]))
    return Program("fused", "Simple", workers, in_place, out_of_place, 0, 0, tuple(gpus))


@pytest.mark.parametrize("workers", range(2, 9))
@pytest.mark.parametrize(("in_place", "out_of_place"), [(True, True), (True, False), (False, True)])
def test_a_ring_of_fused_steps_is_the_ring(workers: int, in_place: bool, out_of_place: bool) -> None:
    schedule = from_msccl(text_of(fused_ring(workers, in_place, out_of_place)))
    verify(schedule)
    assert traffic(schedule) == pytest.approx(traffic(ring(full_mesh(workers))))
    assert (ends(schedule, workers) == ends(ring(full_mesh(workers)), workers)).all()


def all_pairs(workers: int) -> Program:
    """Everybody gathers its chunk of all others in scratch memory, adds it up, and sends it back to all."""
    gpus = []
    for rank in range(workers):
        blocks = []
        for i, peer in enumerate(p for p in range(workers) if p != rank):
            blocks.append(Block(peer, peer, 0, steps_of(("s", "i", peer, "s", 0, 1), ("r", "i", rank, "s", i, 1))))
        for block in blocks:
            block.steps[1].signals = True
        added = Block(-1, -1, 0, [])
        for i in range(workers - 2):
            added.steps += steps_of(("nop", "i", -1, "o", -1, 0))
            added.steps[-1].after = After(i, 1)
        added.steps += steps_of(*(("re", "s", i, "i", rank, 1) for i in range(workers - 1)))
        added.steps[workers - 2].after = After(workers - 2, 1)
        added.steps[-1].signals = True
        for block, peer in zip(blocks, (p for p in range(workers) if p != rank), strict=True):
            block.steps += steps_of(("s", "i", rank, "i", rank, 1), ("r", "i", peer, "i", peer, 1))
            block.steps[2].after = After(len(blocks), len(added.steps) - 1)
        gpus.append(Gpu({"i": workers, "o": 0, "s": workers - 1}, [*blocks, added]))
    return Program("pairs", "LL", workers, True, False, 0, 0, tuple(gpus))


def test_comments_other_attributes_and_absent_ones_are_no_obstacle() -> None:
    """As older programs of msccl-tools and the files of RCCL have them."""
    text = document("ring", 3).replace(' outofplace="1" minBytes="0" maxBytes="0"', ' maxcount="1" nthreadblocks="2"')
    verify(from_msccl("<!-- a ring -->\n" + text))


@pytest.mark.parametrize("workers", range(2, 8))
def test_scratch_memory_and_local_sums_are_read_as_transfers(workers: int) -> None:
    schedule = from_msccl(text_of(all_pairs(workers)))
    verify(schedule)
    assert len(schedule) == 2 * workers * (workers - 1)
    assert (ends(schedule, workers) == ends(schedule, workers)[0]).all()


def test_a_sum_of_all_at_once_cannot_be_said_as_a_schedule() -> None:
    """Three GPUs send all that they have to each other and add it up: an exchange of three."""
    gpus = []
    for rank in range(3):
        peers = [p for p in range(3) if p != rank]
        blocks = [
            Block(p, p, 0, steps_of(("s", "i", 0, "s", i, 1), ("r", "i", 0, "s", i, 1))) for i, p in enumerate(peers)
        ]
        blocks[1].steps[1].signals = True
        blocks[0].steps += steps_of(("re", "s", 0, "i", 0, 1), ("re", "s", 1, "i", 0, 1))
        blocks[0].steps[2].after = After(1, 1)
        gpus.append(Gpu({"i": 1, "o": 0, "s": 2}, blocks))
    with pytest.raises(InputError, match="several GPUs exchange"):
        from_msccl(text_of(Program("all", "LL", 1, True, False, 0, 0, tuple(gpus))))


def test_a_copy_to_the_output_serves_calls_out_of_place() -> None:
    """Two GPUs: 0 sends, 1 adds into its output and sends that back; 1 reads its input and never writes it."""
    one = Gpu({"i": 1, "o": 1, "s": 0}, [Block(1, 1, 0, steps_of(("s", "i", 0, "o", 0, 1), ("r", "o", 0, "o", 0, 1)))])
    local = steps_of(("cpy", "i", 0, "o", 0, 1), ("rrc", "o", 0, "o", 0, 1), ("s", "o", 0, "o", 0, 1))
    other = Gpu({"i": 1, "o": 1, "s": 0}, [Block(0, 0, 0, local)])
    schedule = from_msccl(text_of(Program("copied", "Simple", 1, False, True, 0, 0, (one, other))))
    assert [str(t) for t in schedule] == ["0>1 reduce 0", "1>0 copy 0"]


def test_sums_left_in_the_input_are_no_result_out_of_place() -> None:
    text = to_msccl(ring(full_mesh(3))).replace('dstbuf="o"', 'dstbuf="i"').replace('srcbuf="o"', 'srcbuf="i"')
    with pytest.raises(InputError, match=r"gpu 0: chunk 0 of its output"):
        from_msccl(text)
    verify(from_msccl(text.replace('outofplace="1"', 'outofplace="0"')))


def program(*blocks: list[Block], chunks: int = 1, in_place: bool = True, out_of_place: bool = True) -> str:
    """The text of one list of blocks for each GPU."""
    sizes = {"i": chunks, "o": chunks, "s": 2}
    gpus = tuple(Gpu(sizes, own) for own in blocks)
    return text_of(Program("hand-made", "Simple", chunks, in_place, out_of_place, 0, 0, gpus))


def test_what_differs_in_place_and_out_of_place_must_be_for_one_of_them() -> None:
    """1 adds what 0 sends to its output, and then sends its input on to 2."""
    blocks = [
        [Block(1, 2, 0, steps_of(("s", "i", 0, "o", 0, 1), ("r", "i", 0, "o", 0, 1)))],
        [Block(2, 0, 0, steps_of(("rrc", "i", 0, "o", 0, 1), ("s", "i", 0, "o", 0, 1))),
         Block(-1, 2, 0, steps_of(("r", "i", 0, "o", 0, 1)))],
        [Block(0, 1, 0, steps_of(("rrc", "i", 0, "o", 0, 1), ("s", "o", 0, "o", 0, 1))),
         Block(1, -1, 0, steps_of(("s", "o", 0, "o", 0, 1)))],
    ]  # fmt: skip
    blocks[2][0].steps[0].signals = True
    blocks[2][1].steps[0].after = After(0, 0)
    with pytest.raises(InputError, match="one thing in place and another out of place"):
        from_msccl(program(*blocks))
    verify(from_msccl(program(*blocks, out_of_place=False)))
    with pytest.raises(ProofError, match="contribution of worker 0 not at all"):
        verify(from_msccl(program(*blocks, in_place=False)))


def test_what_no_schedule_can_say_is_refused_with_the_step() -> None:
    relay = [
        [Block(1, -1, 0, steps_of(("s", "i", 0, "s", 0, 1)))],
        [Block(2, 0, 0, steps_of(("r", "i", 0, "s", 0, 1), ("s", "s", 0, "o", 0, 1)))],
        [Block(-1, 1, 0, steps_of(("rrc", "i", 0, "o", 0, 1)))],
    ]
    with pytest.raises(InputError, match=r"gpu 1, tb 0, step 1 \(s\): it passes on what gpu 0 sent"):
        from_msccl(program(*relay))
    stale = [
        [Block(1, -1, 0, steps_of(("s", "i", 0, "o", 0, 1), ("s", "i", 0, "o", 0, 1)))],
        [Block(2, 0, 0, steps_of(("rrs", "i", 0, "o", 0, 1), ("rrc", "i", 0, "o", 0, 1)))],
        [Block(-1, 1, 0, steps_of(("r", "i", 0, "o", 0, 1)))],
    ]
    with pytest.raises(InputError, match=r"gpu 1, tb 0, step 1 \(rrc\): it adds to chunk 0 as it was before a sum"):
        from_msccl(program(*stale))
    crossed = [
        [Block(1, -1, 0, steps_of(("s", "i", 0, "o", 0, 1)))],
        [Block(-1, 0, 0, steps_of(("rrc", "i", 1, "o", 1, 1)))],
    ]
    with pytest.raises(InputError, match=r"gpu 1, tb 0, step 0 \(rrc\): it adds chunk 0 to chunk 1"):
        from_msccl(program(*crossed, chunks=2))
    unwritten = [
        [Block(1, -1, 0, steps_of(("s", "s", 0, "o", 0, 1)))],
        [Block(-1, 0, 0, steps_of(("r", "i", 0, "o", 0, 1)))],
    ]
    with pytest.raises(InputError, match="reads buffer s where nothing was written"):
        from_msccl(program(*unwritten))


# What is broken


def changed(text: str, change: Callable[[list[Gpu]], None]) -> str:
    program = program_of(text)
    change(list(program.gpus))
    return text_of(program)


@pytest.mark.parametrize("name", ["ring", "butterfly", "parameter-server", "halving-doubling"])
def test_dropping_any_step_is_caught(name: str) -> None:
    text = document(name, 4)
    for g, gpu in enumerate(program_of(text).gpus):
        for b, block in enumerate(gpu.blocks):
            for s, step in enumerate(block.steps):

                def drop(gpus: list[Gpu], g: int = g, b: int = b, s: int = s) -> None:
                    del gpus[g].blocks[b].steps[s]

                # What a nop waits for may also follow from messages; everything else does something.
                if step.kind != "nop":
                    with pytest.raises((InputError, ProofError)):
                        verify(from_msccl(changed(text, drop)))


def without_wait(text: str, kinds: str) -> list[str]:
    """The document once without each wait of a step of these types that stands alone."""
    lines = text.splitlines(keepends=True)
    step = re.compile(rf'(<step s="\d+" type="(?:{kinds})".*)depid="\d+" deps="\d+"')
    places = [i for i, line in enumerate(lines) if step.search(line) and 'type="nop"' not in lines[i - 1]]
    return ["".join([*lines[:i], step.sub(r'\1depid="-1" deps="-1"', lines[i]), *lines[i + 1 :]]) for i in places]


@pytest.mark.parametrize("name", ["ring", "butterfly", "halving-doubling", "k-nomial", "blink"])
def test_sending_without_waiting_for_what_is_sent_is_caught(name: str) -> None:
    broken = without_wait(document(name, 5), "s")
    assert broken
    for text in broken:
        with pytest.raises(InputError, match="neither waits for the other: add a depid"):
            from_msccl(text)


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_adding_before_the_other_side_of_an_exchange_is_sent_is_caught(workers: int) -> None:
    broken = without_wait(document("butterfly", workers), "rrc")
    assert len(broken) == workers
    for text in broken:
        with pytest.raises(InputError, match=r"\(rrc\) and .*\(s\) use chunk 0|\(s\) and .*\(rrc\) use chunk 0"):
            from_msccl(text)


@pytest.mark.parametrize("name", ["ring", "halving-doubling", "k-nomial", "blink"])
def test_a_wait_that_can_be_removed_from_a_receiver_follows_from_the_messages(name: str) -> None:
    good = from_msccl(document(name, 5))
    caught = 0
    for text in without_wait(document(name, 5), "r|rrc"):
        try:
            schedule = from_msccl(text)
        except InputError:
            caught += 1
        else:
            assert (ends(schedule, 20 * 1024) == ends(good, 20 * 1024)).all()
    # In the ring a chunk comes back only after it was sent, all the way around: no wait is needed for that.
    assert (caught == 0) == (name == "ring")


def test_swapping_two_sends_is_caught() -> None:
    text = document("ring", 4)
    blocks = program_of(text).gpus[1].blocks
    for b, block in enumerate(blocks):
        for s in range(len(block.steps) - 1):

            def swap(gpus: list[Gpu], b: int = b, s: int = s) -> None:
                steps = gpus[1].blocks[b].steps
                steps[s], steps[s + 1] = steps[s + 1], steps[s]

            with pytest.raises((InputError, ProofError)):
                verify(from_msccl(changed(text, swap)))


def test_waiting_in_a_circle_is_reported_as_what_waits_for_what() -> None:
    def circle(gpus: list[Gpu]) -> None:
        for number, block in enumerate(gpus[0].blocks):
            block.steps[0].after = After(1 - number, 0)
            block.steps[0].signals = True

    with pytest.raises(InputError, match=r"cannot end: gpu 0, tb 0, step 0 \(s\) waits for step 0 of tb 1"):
        from_msccl(changed(document("ring", 3), circle))


def test_waiting_for_a_step_that_never_tells_is_caught() -> None:
    text = document("butterfly", 4)
    with pytest.raises(InputError, match=r"cannot end: .*with hasdep=1"):
        from_msccl(text.replace('hasdep="1"', 'hasdep="0"'))


def test_more_messages_than_a_connection_holds_are_a_deadlock() -> None:
    """Both send three chunks before they receive the first: Simple holds two, LL holds eight."""
    sends = [("s", "i", c, "o", c, 1) for c in range(3)]
    here = steps_of(*sends, *(("rrc", "i", c, "o", c, 1) for c in range(3)))
    there = steps_of(*sends, *(("rrc", "i", c, "o", c, 1) for c in range(3)))
    gpus = tuple(
        Gpu({"i": 3, "o": 3, "s": 0}, [Block(1 - g, 1 - g, 0, steps)]) for g, steps in enumerate((here, there))
    )
    text = text_of(Program("full", "LL", 3, True, True, 0, 0, gpus))
    verify(from_msccl(text))
    with pytest.raises(InputError, match="waits for gpu 1 to receive on channel 0"):
        from_msccl(text.replace('proto="LL"', 'proto="Simple"'))


def test_sending_back_what_was_just_received_is_not_taken_for_an_exchange() -> None:
    """As a list, 0>1 and then 1>0 would read as an exchange, and the proof would pass."""
    one = steps_of(("s", "i", 0, "o", 0, 1), ("rrc", "i", 0, "o", 0, 1))
    other = steps_of(("rrcs", "i", 0, "o", 0, 1))
    gpus = tuple(Gpu({"i": 1, "o": 1, "s": 0}, [Block(1 - g, 1 - g, 0, steps)]) for g, steps in enumerate((one, other)))
    with pytest.raises(InputError, match="gpu 0 gets back from gpu 1 what it sent, and adds it"):
        from_msccl(text_of(Program("twice", "Simple", 1, True, True, 0, 0, gpus)))


def test_a_message_that_nobody_receives_is_caught() -> None:
    def more(gpus: list[Gpu]) -> None:
        block = gpus[0].blocks[0]
        assert block.send == 1
        block.steps += steps_of(("s", "o", 0, "o", 0, 1))
        block.steps[-1].after = After(1, len(gpus[0].blocks[1].steps) - 1)
        gpus[0].blocks[1].steps[-1].signals = True

    with pytest.raises(InputError, match="gpu 1 never receives what gpu 0 sends to it last on channel 0"):
        from_msccl(changed(document("ring", 3), more))


def test_a_reduction_in_place_of_a_copy_is_caught() -> None:
    text = document("parameter-server", 4)
    broken = text.replace('type="r" srcbuf="i"', 'type="rrc" srcbuf="i"', 1)
    assert broken != text
    with pytest.raises((InputError, ProofError)):
        verify(from_msccl(broken))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<algo", "<!DOCTYPE algo [<!ENTITY a 'b'>]><algo", "DOCTYPE"),
        ("</algo>", "", "not XML"),
        ("<algo", "\ud800<algo", "not text|not XML"),
        ('coll="allreduce"', 'coll="allgather"', "only allreduce"),
        ('proto="Simple"', 'proto="simple"', "proto 'simple'"),
        ('ngpus="3"', 'ngpus="4"', "gpu elements must have the ids 0 to 3; missing: 3"),
        ('ngpus="3"', 'ngpus="3000000"', "from 2 to 1024"),
        ('nchunksperloop="3"', 'nchunksperloop="99999999"', "nchunksperloop="),
        ('nchunksperloop="3"', 'nchunksperloop="2"', "chunks 2 to 2 of buffer"),
        ('nchunksperloop="3"', "", "attribute nchunksperloop is missing"),
        ('inplace="1"', 'inplace="2"', "from 0 to 1"),
        ('inplace="1" outofplace="1"', 'inplace="0" outofplace="0"', "never be used"),
        ('<gpu id="1"', '<gpu id="0"', "gpu 0 is there twice"),
        ('<tb id="1"', '<tb id="2"', "tb elements must have the ids"),
        ('send="1"', 'send="0"', "itself"),
        ('send="1"', 'send="7"', "gpu 0, tb 0: send='7'"),
        ('chan="0"', 'chan="32"', "chan='32'"),
        ('<step s="1"', '<step s="5"', "numbered from 0 on"),
        ('type="s"', 'type="put"', r"gpu 0, tb 0, step 0: type 'put' is not one of"),
        ('type="s"', 'type="r"', "a step of type r in a tb with send=1 and recv=-1"),
        ('srcbuf="i"', 'srcbuf="x"', "buffer 'x'"),
        ('srcoff="0"', 'srcoff="3"', "chunks 3 to 3 of buffer i, which has 3"),
        ('srcoff="0"', 'srcoff="\u0661"', "srcoff="),
        ('cnt="1"', 'cnt="0"', "gpu 0, tb 0, step 0"),
        ('cnt="1"', 'cnt="2"', "but gpu 0 sends 2 there"),
        ('depid="1"', 'depid="9"', "step 0 of tb 9, which is not there"),
        ('hasdep="1"', 'hasdep="yes"', "hasdep='yes'"),
        ("<tb ", "<block/><tb ", "<block> where <tb> is expected"),
        ("<step ", "<step/><step ", "attribute s is missing"),
    ],
)
def test_malformed_documents_are_refused_with_the_place(old: str, new: str, message: str) -> None:
    text = document("ring", 3)
    assert old in text
    with pytest.raises(InputError, match=message):
        from_msccl(text.replace(old, new, 1))


def test_documents_of_absurd_size_are_refused_before_they_cost_anything() -> None:
    text = document("ring", 3)
    blocks = "".join(f'<tb id="{i}" send="-1" recv="-1" chan="0"/>' for i in range(2, 12_000))
    with pytest.raises(InputError, match="12004 thread blocks with 24 steps are too many to follow"):
        from_msccl(text.replace("  </gpu>", blocks + "</gpu>", 1))
    with pytest.raises(InputError, match="1000 GPUs of 32767 chunks are too many"):
        from_msccl(text.replace('ngpus="3"', 'ngpus="1000"').replace('nchunksperloop="3"', 'nchunksperloop="32767"'))
    with pytest.raises(InputError, match="characters; at most"):
        from_msccl(text + " " * (1 << 26))


def test_a_nop_without_a_wait_is_refused_as_rccl_does() -> None:
    text = document("butterfly", 4)
    nop = re.search(r'<step s="\d+" type="nop".*depid="(\d+)"', text)
    assert nop
    broken = text.replace(nop[0], nop[0].replace(f'depid="{nop[1]}"', 'depid="-1"'))
    with pytest.raises(InputError, match=r"\(nop\): a nop, and the step after it, must wait"):
        from_msccl(broken)
    start = text.index("depid", text.index("\n", text.index(nop[0])))
    broken = text[:start] + re.sub(r'"\d+"', '"-1"', text[start:], count=2)
    with pytest.raises(InputError, match=r"\(rrc\): a nop, and the step after it, must wait"):
        from_msccl(broken)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_damage_gives_anything_but_our_errors_or_a_true_all_reduce(data: st.DataObject) -> None:
    """Numbers of a document are changed at random: it is refused, or what it still does is proved and right."""
    text = document(data.draw(st.sampled_from(["ring", "butterfly", "halving-doubling"])), 3)
    numbers = list(re.finditer(r'(?<=")-?\d+(?=")', text))
    for _ in range(data.draw(st.integers(1, 3))):
        found = data.draw(st.sampled_from(numbers))
        text = text[: found.start()] + str(data.draw(st.integers(0, 9))).ljust(len(found[0])) + text[found.end() :]
        text = re.sub(r'"(\d+) +"', r'"\1"', text)
        numbers = list(re.finditer(r'(?<=")-?\d+(?=")', text))
    try:
        schedule = from_msccl(text)
        verify(schedule)
    except (InputError, ScheduleError):
        return
    values = ends(schedule, 4 * int(schedule.chunk_weights.sum()))
    assert (values == values[0]).all()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_trees_with_any_weights_survive_the_journey(data: st.DataObject) -> None:
    """Chunks go up and down random trees, in spans, with weights from nothing to heavy."""
    workers = data.draw(st.integers(2, 6))
    weights = data.draw(st.lists(st.integers(0, 90), min_size=1, max_size=5).filter(any))
    transfers: list[Transfer] = []
    chunk = 0
    while chunk < len(weights):
        span = data.draw(st.integers(1, len(weights) - chunk))
        order = data.draw(st.permutations(range(workers)))
        edges = [(order[i], order[data.draw(st.integers(0, i - 1))]) for i in range(1, workers)]
        transfers += [Transfer(child, parent, chunk, "reduce", span) for child, parent in reversed(edges)]
        transfers += [Transfer(parent, child, chunk, "copy", span) for child, parent in edges]
        chunk += span
    schedule = Schedule.of_transfers(workers, weights, transfers)
    again = from_msccl(to_msccl(schedule, most_steps=data.draw(st.sampled_from([8, 64]))))
    verify(again)
    assert traffic(again) == pytest.approx({pair: size for pair, size in traffic(schedule).items() if size})


def test_networks_with_inactive_workers_are_refused() -> None:
    with pytest.raises(InputError, match="3 of 4 workers participate"):
        to_msccl(halving_doubling(replace(full_mesh(4), inactive=("w3",))))
