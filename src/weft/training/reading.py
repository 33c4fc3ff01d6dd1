"""TOML tables as dataclasses: unknown keys, wrong types and values out of range, all found at once, each with its place."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from weft.errors import InputError, Mistake
from weft.network.check import closest

T = TypeVar("T")
_BAD = object()


class Reader:
    """Reads tables, and remembers every mistake until ``raise_mistakes``."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._mistakes: list[Mistake] = []

    def mistake(self, place: str, problem: str) -> None:
        self._mistakes.append(Mistake(place, problem))

    def raise_mistakes(self) -> None:
        if len(self._mistakes) == 1:
            raise InputError(f"{self._source}: {self._mistakes[0]}")
        if self._mistakes:
            lines = "\n".join(f"  {mistake}" for mistake in self._mistakes)
            raise InputError(f"{self._source} has {len(self._mistakes)} mistakes:\n{lines}")

    def table(self, document: Mapping[str, Any], key: str) -> dict[str, Any]:
        """The table of a key; an empty one where it is absent."""
        value = document.get(key, {})
        if isinstance(value, dict):
            return value
        self.mistake(key, f"{_shown(value)} is not a table; write [{key}] on a line of its own")
        return {}

    def unknown(self, place: str, keys: Mapping[str, Any], known: list[str]) -> None:
        """A mistake for every key that does not exist."""
        for key in keys:
            if key not in known:
                here = f"{place}.{key}" if place else key
                there = closest(key, known) or f"; there {'are' if len(known) > 1 else 'is'} {', '.join(known)}"
                self.mistake(here, f"there is no such key{there if known else '; nothing can be set here'}")

    def read(self, kind: type[T], values: Mapping[str, Any], place: str) -> T:
        """An object of a dataclass; where something is wrong, its default, and a mistake."""
        fields = {field.name: field for field in dataclasses.fields(cast(Any, kind))}
        self.unknown(place, values, list(fields))
        hints = get_type_hints(kind)
        good = {}
        for name, field in fields.items():
            if name in values:
                value = self._value(hints[name], values[name], field.metadata, f"{place}.{name}")
                if value is not _BAD:
                    good[name] = value
        return kind(**good)

    def _value(self, hint: Any, value: Any, limits: Mapping[str, Any], place: str) -> Any:
        if get_origin(hint) in (Union, types.UnionType):
            hint = next(kind for kind in get_args(hint) if kind is not type(None))
        if get_origin(hint) is Literal:
            return self._choice(list(get_args(hint)), value, place)
        if get_origin(hint) is tuple:
            if not isinstance(value, list):
                return self._bad(place, value, "a list")
            read = [self._value(get_args(hint)[0], x, limits, f"{place}[{i}]") for i, x in enumerate(value)]
            return _BAD if _BAD in read else tuple(read)
        if hint is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not hint:
            what = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}[hint]
            return self._bad(place, value, what)
        return self._within(limits, value, place) if hint in (int, float) else value

    def _choice(self, choices: list[str], value: Any, place: str) -> Any:
        if value in choices:
            return value
        if isinstance(value, str) and value.replace("_", "-") in choices:
            return value.replace("_", "-")
        near = closest(value, choices) if isinstance(value, str) else ""
        self.mistake(place, f"{_shown(value)} is not possible{near or '; choose ' + ' or '.join(choices)}")
        return _BAD

    def _within(self, limits: Mapping[str, Any], value: float, place: str) -> Any:
        wrong = [
            "finite" if not math.isfinite(value) else "",
            f"at least {limits['least']:g}" if "least" in limits and not value >= limits["least"] else "",
            f"more than {limits['above']:g}" if "above" in limits and not value > limits["above"] else "",
            f"less than {limits['below']:g}" if "below" in limits and not value < limits["below"] else "",
            f"at most {limits['most']:g}" if "most" in limits and not value <= limits["most"] else "",
        ]
        problem = next((x for x in wrong if x), None)
        if problem is None:
            return value
        self.mistake(place, f"{value:g} is not possible; it must be {problem}")
        return _BAD

    def _bad(self, place: str, value: Any, wanted: str) -> Any:
        self.mistake(place, f"{_shown(value)} is not {wanted}")
        return _BAD


def _shown(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
