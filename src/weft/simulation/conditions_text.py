"""Conditions as texts, for the command line, and as files.

On the command line, each with the time for which it holds (from the start and for ever, where none is given):

    --pause a0@0.1s..0.3s
    --background a0>b1@0s..2s        --background a0>b1:500MB     --background 4xa0>b1
    --slow tor-a>core*0.25@1s..      --slow tor-a>core*0          (stopped)

In a file:

    conditions:
      - {pause: a0, from: 0.1s, until: 0.3s}
      - {background: a0>b1, size: 500MB, flows: 4}
      - {slow: tor-a>core, factor: 0.25, from: 1s}
"""

from __future__ import annotations

import re
from pathlib import Path

from weft.errors import InputError, Mistake, NetworkError
from weft.network.check import closest
from weft.network.places import Entry, Item, read_yaml
from weft.simulation.conditions import FOREVER, Background, Condition, Conditions, Pause, Slow
from weft.units import parse_bytes, parse_seconds

_KEYS = {
    "pause": ("pause", "from", "until"),
    "background": ("background", "size", "flows", "from", "until"),
    "slow": ("slow", "factor", "from", "until"),
}


def _timed(text: str) -> tuple[str, float, float]:
    """What stands before ``@``, and the times behind it."""
    what, at, times = text.rpartition("@")
    if not at:
        return text, 0.0, FOREVER
    start, dots, end = times.partition("..")
    return what, parse_seconds(start) if start else 0.0, parse_seconds(end) if dots and end else FOREVER


def parse_pause(text: str) -> Pause:
    """``WORKER[@START..END]``"""
    worker, start, end = _timed(text)
    return Pause(worker, start, end)


def parse_background(text: str) -> Background:
    """``[FLOWSx]SOURCE>DESTINATION[:SIZE][@START..END]``"""
    what, start, end = _timed(text)
    match = re.fullmatch(r"(?:(\d+)x)?([^>]+)>([^>:]+)(?::(.+))?", what)
    if match is None:
        raise InputError(f"{text!r} is not a background flow: write it as a0>b1, a0>b1:500MB or 4xa0>b1@1s..2s")
    nbytes = parse_bytes(match[4]) if match[4] else FOREVER
    return Background(match[2], match[3], start, end, nbytes, int(match[1] or 1))


def parse_slow(text: str) -> Slow:
    """``SOURCE>DESTINATION*FACTOR[@START..END]``"""
    what, start, end = _timed(text)
    link, star, factor = what.rpartition("*")
    if not star:
        raise InputError(f"{text!r} is not a slowed link: write it as tor-a>core*0.25, where 0 stops it")
    return Slow(link, _factor(factor), start, end)


def _factor(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"{text!r} is not a factor: write a number such as 0.25") from error


def conditions_from_file(path: Path) -> Conditions:
    """The conditions of a file; every mistake with its place, all at once."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    root = read_yaml(data, str(path))
    if not isinstance(root.value, dict) or root.value.keys() != {"conditions"}:
        raise NetworkError(
            [Mistake(f"{path}:{root.line}:{root.column}", "a conditions file is a map with the key conditions")]
        )
    listed = root.value["conditions"].item
    found: list[Condition] = []
    mistakes: list[Mistake] = []
    for item in listed.value if isinstance(listed.value, list) else [listed]:
        try:
            found.append(_condition(item))
        except InputError as error:
            mistakes.append(Mistake(f"{path}:{item.line}:{item.column}", str(error)))
    if mistakes:
        raise NetworkError(mistakes)
    return Conditions(found)


def _condition(item: Item) -> Condition:
    entries: dict[str, Entry] = item.value if isinstance(item.value, dict) else {}
    kind = next((key for key in _KEYS if key in entries), None)
    if kind is None:
        raise InputError(
            "a condition is a map with pause, background or slow, such as {pause: a0, from: 0s, until: 1s}"
        )
    texts: dict[str, str] = {}
    for key, entry in entries.items():
        if key not in _KEYS[kind]:
            raise InputError(
                f"there is no key {key!r}{closest(key, _KEYS[kind])}; keys here are {', '.join(_KEYS[kind])}"
            )
        if not isinstance(entry.item.value, str):
            raise InputError(f"{key} is a text, not a {entry.item.kind}")
        texts[key] = entry.item.value
    start = parse_seconds(texts.get("from", "0"))
    end = parse_seconds(texts["until"]) if "until" in texts else FOREVER
    condition: Condition
    if kind == "pause":
        condition = Pause(texts["pause"], start, end)
    elif kind == "slow":
        if "factor" not in texts:
            raise InputError("a slowed link needs a factor; 0 stops it")
        condition = Slow(texts["slow"], _factor(texts["factor"]), start, end)
    else:
        flow = parse_background(texts["background"])
        if flow != Background(flow.source, flow.destination):
            raise InputError(
                f"background is a pair such as {flow.source}>{flow.destination}: say the rest by flows, from, until and size"
            )
        nbytes = parse_bytes(texts["size"]) if "size" in texts else FOREVER
        flows = texts.get("flows", "1")
        if not flows.isdecimal():
            raise InputError(f"flows = {flows!r} is not a whole number")
        condition = Background(flow.source, flow.destination, start, end, nbytes, int(flows))
    Conditions([condition])
    return condition
