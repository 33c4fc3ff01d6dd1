from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft import InputError
from weft.units import (
    exact_bandwidth,
    exact_seconds,
    format_bandwidth,
    format_bytes,
    format_seconds,
    parse_bandwidth,
    parse_bytes,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("25MB", 25_000_000), ("64KiB", 65536), ("1 GiB", 2**30), ("7", 7), ("1e6B", 10**6), ("1.5kB", 1500)],
)
def test_sizes_are_bytes(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10Gbit", 1.25e9), ("400Mbit/s", 5e7), ("8bps", 1.0), ("1.25GB/s", 1.25e9), ("25 GB", 25e9)],
)
def test_bandwidths_are_bytes_per_second(text: str, expected: float) -> None:
    assert parse_bandwidth(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("50us", 50e-6), ("0", 0.0), ("1.5s", 1.5), ("3 ms", 3e-3), ("7µs", 7e-6)]
)
def test_times_are_seconds(text: str, expected: float) -> None:
    assert parse_seconds(text) == expected


@pytest.mark.parametrize("text", ["0", "12 parsecs", "", "MB", "-5MB", "1e400MB", "nan", "10Gbit", "25mb"])
def test_what_is_not_a_size_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(InputError, match="size"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["10", "-1Gbit", "0Gbit", "fast", "5us"])
def test_what_is_not_a_bandwidth_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="bandwidth"):
        parse_bandwidth(text)


@pytest.mark.parametrize("text", ["5", "-1us", "soon", "5MB"])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="time"):
        parse_seconds(text)


@given(st.floats(1e-3, 1e15))
def test_exact_texts_parse_back_to_the_same_float(value: float) -> None:
    assert parse_bandwidth(exact_bandwidth(value)) == value
    assert parse_seconds(exact_seconds(value / 1e9)) == value / 1e9


def test_people_read_short_numbers() -> None:
    assert format_bytes(25e6) == "25 MB"
    assert format_bandwidth(1.25e9) == "10 Gbit/s"
    assert format_seconds(0.00123456) == "1.235 ms"
    assert format_seconds(0) == "0 ns"
