"""Units at the edges: ``25MB``, ``10Gbit``, ``50us`` to bytes, bytes per second and seconds, and back.

Inside the code there are only seconds and bytes. MB means 10^6 bytes, MiB means 2^20.
"""

from __future__ import annotations

import math
import re

from weft.errors import InputError

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}

BYTES = {prefix + "B": factor for prefix, factor in (_DECIMAL | _BINARY).items()}
BANDWIDTHS = {prefix + bit: factor / 8 for prefix, factor in _DECIMAL.items() for bit in ("bit", "bps", "bit/s")}
BANDWIDTHS |= {prefix + byte: factor for prefix, factor in (_DECIMAL | _BINARY).items() for byte in ("B/s", "B")}
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0}

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ/]*)\s*")


def _parsed(text: str, units: dict[str, float], what: str, examples: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in units:
        raise InputError(f"{text!r} is not a {what}: write a number and a unit, such as {examples}")
    # Multiplying by an inexact 1e-6 is a rounding more than dividing by an exact 1e6.
    factor = units[match[2]]
    value = float(match[1]) * factor if factor >= 1 / 8 else float(match[1]) / round(1 / factor)
    if not math.isfinite(value):
        raise InputError(f"{text!r} is not a {what}: it is too large")
    return value


def parse_bytes(text: str) -> int:
    """The number of bytes in a size such as ``25MB``, ``64KiB`` or ``1e6B``; at least one."""
    if re.fullmatch(r"\s*\d+\s*", text):
        text += "B"
    value = round(_parsed(text, BYTES, "size", "25MB or 64KiB"))
    if value < 1:
        raise InputError(f"a size of {text.strip()} is too small: it must be at least one byte")
    return value


def parse_bandwidth(text: str) -> float:
    """Bytes per second of a rate such as ``10Gbit``, ``400Mbit/s`` or ``1.25GB/s``; positive."""
    value = _parsed(text, BANDWIDTHS, "bandwidth", "10Gbit or 1.25GB/s")
    if value <= 0:
        raise InputError(f"a bandwidth of {text.strip()} is not possible: it must be more than 0")
    return value


def parse_seconds(text: str) -> float:
    """Seconds of a time such as ``50us`` or ``1.5s``; zero or more, and ``0`` needs no unit."""
    value = 0.0 if re.fullmatch(r"\s*0+\.?0*\s*", text) else _parsed(text, SECONDS, "time", "50us or 1.5s")
    if value < 0:
        raise InputError(f"a time of {text.strip()} is not possible: it must not be negative")
    return value


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    for factor, unit in steps:
        if abs(value) >= factor * 0.99995:
            return f"{value / factor:.4g} {unit}"
    factor, unit = steps[-1]
    return f"{value / factor:.3g} {unit}" if value else f"0 {unit}"


def format_bytes(value: float) -> str:
    """A size for people: ``25 MB``."""
    return _scaled(value, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")))


def format_bandwidth(value: float) -> str:
    """A rate for people: ``10 Gbit/s``."""
    steps = ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
    return _scaled(value * 8, steps)


def format_seconds(value: float) -> str:
    """A time for people: ``1.234 ms``."""
    return _scaled(value, ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")))


def _exact(value: float, candidates: tuple[tuple[float, str], ...], units: dict[str, float]) -> str:
    """The shortest text that parses back to exactly this float."""
    for scale, unit in candidates:
        for text in (f"{value * scale:.12g}{unit}", f"{value * scale!r}{unit}"):
            if len(text) < 16 and _parsed(text, units, "", "") == value:
                return text
    scale, unit = candidates[-1]
    return f"{value!r}{unit}"


def exact_bandwidth(value: float) -> str:
    """A rate for files; it parses back to the same float."""
    return _exact(value, ((8e-9, "Gbit"), (8e-6, "Mbit"), (1e-9, "GB/s"), (1.0, "B/s")), BANDWIDTHS)


def exact_seconds(value: float) -> str:
    """A time for files; it parses back to the same float."""
    return _exact(value, ((1e6, "us"), (1e3, "ms"), (1.0, "s")), SECONDS)
