"""How much room a text takes, in inches, and how it is shortened where there is less."""

from __future__ import annotations

import unicodedata

NODE_TEXT = 7.0
"""points, as all sizes of text"""
MOST_CHARACTERS = 18
_EMS = 0.62
"""the width of a character of a sans-serif font in parts of its size, on the safe side"""


def text_width(text: str, size: float = NODE_TEXT) -> float:
    """About how wide a text is; the font of whoever looks at an SVG is not known."""
    cells = sum(1.7 if unicodedata.east_asian_width(character) in "WF" else 1.0 for character in text)
    return cells * size * _EMS / 72


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text of at most so many characters: where it was longer, its middle is missing."""
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}" if most > 1 else "…"


def fitting(text: str, width: float, size: float = NODE_TEXT) -> str:
    """The text, shortened to a width; nothing where not even five characters would be left of a longer one."""
    room = int(width / text_width("m", size))
    while room >= min(5, len(text)):
        short = shortened(text, room)
        if text_width(short, size) <= width:
            return short
        room -= 1
    return ""


def natural_order(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts ``a2`` before ``a10``."""
    parts: list[tuple[int, int, str]] = []
    number = ""
    for character in text + "\0":
        if character.isascii() and character.isdigit():
            number += character
            continue
        if number:
            parts.append((0, int(number), ""))
            number = ""
        parts.append((1, 0, character))
    return tuple(parts)
