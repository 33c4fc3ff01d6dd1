"""YAML as texts with places.

The parser's events are turned into maps, lists and texts that know their line and column. Aliases and tags are
refused, nesting is limited, and no value is interpreted.
"""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from weft.errors import Mistake, NetworkError
from weft.network.check import Place

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 16
_LARGEST = 64_000_000

__all__ = ["Entry", "Item", "Place", "read_yaml"]


@dataclass(slots=True)
class Item:
    """A value and where it stands; lines and columns count from 1."""

    value: str | list[Item] | dict[str, Entry]
    line: int
    column: int

    @property
    def kind(self) -> str:
        return "text" if isinstance(self.value, str) else "list" if isinstance(self.value, list) else "map"


@dataclass(slots=True)
class Entry:
    """A key of a map and its value."""

    key: Item
    item: Item


@dataclass(slots=True)
class _Open:
    item: Item
    key: Item | None = None


def read_yaml(text: str | bytes, file: str) -> Item:
    """The one document of a YAML text."""
    if len(text) > _LARGEST:
        raise _refused(file, 1, 1, f"the file has {len(text) / 1e6:.0f} MB; more than 64 MB cannot be a network file")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _refused(
                file, 1, 1, f"this is not text: byte {error.start} is not UTF-8; give a YAML file"
            ) from error
    try:
        return _tree(text, file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = " ".join(part for part in (error.context, error.problem) if part)
        raise _refused(file, line, column, f"this is not YAML: {problem}") from error
    except yaml.YAMLError as error:
        raise _refused(file, 1, 1, f"this is not YAML: {str(error).splitlines()[0]}") from error


def _refused(file: str, line: int, column: int, problem: str) -> NetworkError:
    return NetworkError([Mistake(f"{file}:{line}:{column}", problem)])


def _tree(text: str, file: str) -> Item:
    root: Item | None = None
    stack: list[_Open] = []
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        assert event.start_mark is not None
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if root is not None and not stack:
            raise _refused(file, line, column, "a second document begins here; a network file has one")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None) not in (None, "!"):
            raise _refused(file, line, column, "aliases and tags are not supported; write the value itself")
        item = Item("", line, column)
        if isinstance(event, yaml.ScalarEvent):
            item.value = "" if event.style is None and event.value in ("~", "null") else event.value
        else:
            item.value = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        _placed(item, stack, file)
        root = root or item
        if isinstance(event, yaml.CollectionStartEvent):
            if len(stack) >= _DEEPEST:
                raise _refused(file, line, column, f"this is nested more than {_DEEPEST} deep; a network file is flat")
            stack.append(_Open(item))
    return root or Item("", 1, 1)


def _placed(item: Item, stack: list[_Open], file: str) -> None:
    """Put an item into what is open around it."""
    if not stack:
        return
    around = stack[-1]
    if isinstance(around.item.value, list):
        around.item.value.append(item)
    elif isinstance(around.item.value, dict):
        if around.key is None:
            if not isinstance(item.value, str):
                raise _refused(file, item.line, item.column, f"a key is a text, not a {item.kind}")
            if item.value in around.item.value:
                raise _refused(file, item.line, item.column, f"the key {item.value!r} is given twice")
            around.key = item
        else:
            assert isinstance(around.key.value, str)
            around.item.value[around.key.value] = Entry(around.key, item)
            around.key = None
