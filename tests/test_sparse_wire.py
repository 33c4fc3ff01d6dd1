"""Messages: what is put in comes out, in few bytes, and what is not a message is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.sparse import MessageError
from weft.sparse.finite import Note
from weft.sparse.gathering import apart, together
from weft.sparse.index_coding import BITS, EVERY, GAPS_1, GAPS_2, PLAIN_2, PLAIN_3, PLAIN_4, coded, decoded
from weft.sparse.number_formats import FORMATS, NumberFormat, check_format, packed, rounded, unpacked
from weft.sparse.pairs import Pairs
from weft.sparse.wire import Message, decode, encoded, most_bytes

HEAD, BLOCK = 16, 12


def pairs_at(index: list[int]) -> Pairs:
    return Pairs(np.array(index, np.int32), np.random.default_rng(0).standard_normal(len(index), dtype=np.float32))


@given(st.sets(st.integers(0, 400_000), max_size=80), st.integers(0, 2_000_000_000), st.integers(0, 200_000))
@settings(max_examples=150, deadline=None)
def test_indexes_come_back_whatever_the_coding(offsets: set[int], start: int, beyond: int) -> None:
    length = max(offsets, default=0) + 1 + beyond
    index = np.array(sorted(offsets), np.int32) + np.int32(min(start, 2**31 - 1 - length))
    first = min(start, 2**31 - 1 - length)
    coding, data = coded(index, first, length)
    back = decoded(data, coding, len(index), first, length)
    assert back is not None
    assert np.array_equal(back, index)
    assert len(data) <= 4 * len(index)


@pytest.mark.parametrize(
    ("index", "length", "coding", "size"),
    [
        (range(0, 60_000, 600), 65_536, PLAIN_2, 200),
        (range(0, 6_000_000, 60_000), 6_500_000, GAPS_2, 200),
        ([5, 5_000_000, 16_000_000], 16_777_216, PLAIN_3, 9),
        ([5, 50_000_000, 160_000_000], 2**31 - 1, PLAIN_4, 12),
        (range(0, 100_000, 100), 100_000, GAPS_1, 1_000),
        (range(0, 1_000, 2), 1_000, BITS, 125),
        (range(1_000), 1_000, EVERY, 0),
    ],
)
def test_indexes_take_the_coding_that_takes_the_fewest_bytes(index: range, length: int, coding: int, size: int) -> None:
    found, data = coded(np.array(index, np.int32), 0, length)
    assert (found, len(data)) == (coding, size)


def test_one_percent_at_random_takes_little_more_than_a_byte_an_index() -> None:
    chosen = np.flatnonzero(np.random.default_rng(0).random(2_000_000) < 0.01).astype(np.int32)
    message = encoded([Pairs(chosen, np.ones(len(chosen), np.float32))], [(0, 2_000_000)], "float32", None)
    assert len(message.data) < HEAD + BLOCK + 5.12 * len(chosen)
    assert message.elements == 2 * len(chosen)


@pytest.mark.parametrize("values", FORMATS)
def test_messages_come_back_with_their_note(values: NumberFormat) -> None:
    spans = [(0, 100), (100, 100), (100, 4_000), (4_000, 4_010)]
    blocks = [
        pairs_at([3, 50, 99]),
        pairs_at([]),
        pairs_at(list(range(200, 3_000, 7))),
        pairs_at(list(range(4_000, 4_010))),
    ]
    message = encoded(blocks, spans, values, Note(3, 77))
    assert len(message.data) <= most_bytes(spans, sum(map(len, blocks)), values)
    assert message.elements == 2 * (len(blocks[0]) + len(blocks[2])) + 10, "a full block has no indexes"
    back, note = decode(message.data, spans)
    assert note == Note(3, 77)
    for sent, arrived in zip(blocks, back, strict=True):
        assert np.array_equal(arrived.index, sent.index)
        assert np.array_equal(arrived.value, rounded(sent, values).value)
    assert decode(encoded([], [], values, None).data, []) == ([], None)


def test_two_bytes_are_to_the_nearest_and_never_infinite() -> None:
    numbers = np.array([1.0, -1.0, 1 + 2**-8, 1 + 3 * 2**-9, 3.4e38, -3.4e38, 1e-45, 0.1], np.float32)
    brain = unpacked(packed(numbers, "bfloat16"), "bfloat16")
    assert brain[:4].tolist() == [1.0, -1.0, 1.0, 1 + 2**-7], "halfway goes to the even one"
    half = unpacked(packed(numbers, "float16"), "float16")
    assert half[4:6].tolist() == [65504.0, -65504.0]
    assert np.all(np.isfinite(brain))
    assert abs(brain[7] - 0.1) < 0.1 * 2**-8
    with pytest.raises(InputError, match="values as 'int8' are not possible: use float32, bfloat16, float16"):
        check_format("int8")


def test_every_message_that_is_cut_short_or_too_long_is_refused() -> None:
    spans = [(0, 1000), (1000, 1500)]
    data = encoded([pairs_at([1, 5, 999]), pairs_at([1000, 1499])], spans, "float32", None).data
    for size in range(len(data)):
        with pytest.raises(MessageError):
            decode(data[:size], spans)
    with pytest.raises(MessageError, match="speaks of another number"):
        decode(np.append(data, np.uint8(0)), spans)
    with pytest.raises(MessageError, match="has 2 blocks where 1 were expected"):
        decode(data, spans[:1])
    with pytest.raises(MessageError, match="use one on all ranks"):
        decode(np.concatenate([np.array([9], np.uint8), data[1:]]), spans)


@given(st.integers(0, 60), st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_a_changed_byte_never_gives_indexes_outside_their_block(place: int, value: int) -> None:
    spans = [(100, 1100)]
    data = encoded([pairs_at([101, 150, 700, 1099])], spans, "float32", None).data.copy()
    data[place % len(data)] = value
    try:
        (block,), _ = decode(data, spans)
    except MessageError:
        return
    assert np.all(np.diff(block.index) > 0)
    assert all(100 <= i < 1100 for i in block.index.tolist())


def test_several_messages_travel_as_one_and_the_wrong_number_is_refused() -> None:
    items = [Message(np.arange(n, dtype=np.uint8), 2 * n) for n in (3, 0, 200)]
    whole = together(items)
    assert whole.elements == 406
    back = apart(whole.data, 3)
    assert [(item.data.tolist(), item.elements) for item in back] == [(i.data.tolist(), i.elements) for i in items]
    with pytest.raises(MessageError, match="does not have the 2 parts"):
        apart(whole.data, 2)
    with pytest.raises(MessageError, match="another number"):
        apart(whole.data[:-1], 3)
