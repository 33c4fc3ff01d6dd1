"""How values travel: as they are, or rounded to two bytes. What rounding takes away stays with whoever rounded."""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError
from weft.sparse.pairs import Pairs, Values

NumberFormat = Literal["float32", "bfloat16", "float16"]
FORMATS: Final = get_args(NumberFormat)
"""in the order of their numbers in messages"""
LARGEST_HALF = 65504.0
LARGEST_BRAIN = np.array(0x7F7F0000, np.uint32).view(np.float32)
_TYPES: Final = {"float32": np.float32, "bfloat16": np.uint16, "float16": np.float16}


def check_format(name: str) -> None:
    if name not in FORMATS:
        raise InputError(f"values as {name!r} are not possible: use {', '.join(FORMATS)}")


def value_bytes(name: NumberFormat) -> int:
    return np.dtype(_TYPES[name]).itemsize


def rounded(pairs: Pairs, name: NumberFormat) -> Pairs:
    """The pairs as they arrive; what is too large for the format becomes its largest number."""
    if name == "float32":
        return pairs
    return Pairs(pairs.index, unpacked(packed(pairs.value, name), name))


def packed(values: Values, name: NumberFormat) -> NDArray[np.uint8]:
    """The bytes of values."""
    if name == "float32":
        return np.ascontiguousarray(values).view(np.uint8)
    if name == "float16":
        return np.clip(values, -LARGEST_HALF, LARGEST_HALF).astype(np.float16).view(np.uint8)
    bits = np.clip(values, -LARGEST_BRAIN, LARGEST_BRAIN).view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)  # to the nearest, and halfway to the even one
    return ((bits + np.uint32(0x7FFF) + even) >> np.uint32(16)).astype(np.uint16).view(np.uint8)


def unpacked(data: NDArray[np.uint8], name: NumberFormat) -> Values:
    """The inverse; a copy."""
    numbers = data.view(_TYPES[name])
    if name == "bfloat16":
        return (numbers.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return numbers.astype(np.float32)
