"""One HTML file with texts, tables and pictures, complete in itself: nothing is loaded from elsewhere, nothing runs.

Every text is escaped. Pictures are SVG that ``svg_text`` made, and become part of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from weft.errors import InputError

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --faint: #5c6875; --paper: #ffffff; --line: #d5dce3;
  --stripe: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --faint: #9aa7b4; --paper: #15191e; --line: #36404a; --stripe: #1d232a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.2rem; margin-top: 2rem; padding-top: 0.6rem; border-top: 1px solid var(--line); }
p { max-width: 44rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.8rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
tbody tr:nth-child(even) { background: var(--stripe); }
figure { margin: 1rem 0; }
figure .wide { background: #ffffff; border: 1px solid var(--line); border-radius: 0.5rem; }
figure svg { display: block; margin: 0 auto; width: 100%; min-width: 36rem; height: auto; }
figcaption { color: var(--faint); font-size: 0.9rem; margin-top: 0.4rem; max-width: 44rem; }
""".strip()

_TAG = re.compile(r"<[^>]*>")
_NUMBER = re.compile(r"\s*[-+]?[\d.,]+(e[-+]?\d+)?\s*([%:x]|[A-Za-zµ/]{1,7})?\d?\s*")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: a heading, then whatever of texts, a table and a picture there is."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """the heads of the table"""
    rows: tuple[tuple[str, ...], ...] = ()
    svg: str = ""
    """a picture, as ``svg_text`` writes it"""
    caption: str = ""
    """what the picture shows"""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if self.columns and len(row) != len(self.columns):
                raise InputError(
                    f"row {number} of the table {self.heading!r} has {len(row)} cells, but there are "
                    f"{len(self.columns)} columns: give every row one cell for each"
                )
        if self.svg and "<svg" not in self.svg:
            raise InputError(f"the picture of {self.heading!r} is no SVG: it begins with {self.svg[:20]!r}")


def html_page(title: str, sections: Iterable[Section]) -> str:
    """The page as text."""
    parts = "\n".join(_section(section, number) for number, section in enumerate(sections, start=1))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{_STYLE}
</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{parts}
</main>
</body>
</html>
"""


def _section(section: Section, number: int) -> str:
    name = f"section-{number}"
    parts = [f'<section aria-labelledby="{name}">', f'<h2 id="{name}">{escape(section.heading)}</h2>']
    parts += [f"<p>{escape(paragraph)}</p>" for paragraph in section.paragraphs]
    if section.rows:
        parts.append(_table(section.columns, section.rows))
    if section.svg:
        parts.append(_figure(section, number))
    return "\n".join([*parts, "</section>"])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; columns of numbers are aligned at the right. A dash stands for a number that is missing."""
    length = max(map(len, rows))
    numeric = [
        all(_NUMBER.fullmatch(row[i]) for row in rows if i < len(row) and row[i] not in ("", "-"))
        for i in range(length)
    ]
    kind = [' class="number"' if is_number else "" for is_number in numeric]
    head = "".join(f'<th scope="col"{kind[i]}>{escape(text)}</th>' for i, text in enumerate(columns))
    lines = ["".join(f"<td{kind[i]}>{escape(text)}</td>" for i, text in enumerate(row)) for row in rows]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    top = f"<thead><tr>{head}</tr></thead>\n" if columns else ""
    return f'<div class="wide"><table>\n{top}<tbody>\n{body}\n</tbody>\n</table></div>'


def _figure(section: Section, number: int) -> str:
    caption = f"\n<figcaption>{escape(section.caption)}</figcaption>" if section.caption else ""
    svg = _inlined(section.svg, f"f{number}-", section.caption or section.heading)
    return f'<figure>\n<div class="wide">{svg}</div>{caption}\n</figure>'


def _inlined(svg: str, prefix: str, label: str) -> str:
    """An SVG document as part of a page: without its head, with ids of its own, and never larger than it was made."""
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :].strip(), count=1, flags=re.DOTALL)
    body = _TAG.sub(lambda tag: _own_ids(tag[0], prefix), body)
    width = re.match(r'<svg[^>]*?\swidth="([\d.]+(?:pt|px)?)"', body)
    most = f' style="max-width: {width[1]}"' if width else ""
    return body.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"{most}', 1)


def _own_ids(tag: str, prefix: str) -> str:
    """A tag in which all ids, and what refers to them, have a prefix."""
    tag = re.sub(r'(\sid=")', rf"\g<1>{prefix}", tag)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", tag)
