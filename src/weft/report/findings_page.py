"""What a reproduction found as a page, or its pictures alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure, SubFigure

from weft.files import write_atomically
from weft.report.page import Section, html_page
from weft.report.save import save_figure, svg_text
from weft.reproductions.findings import Findings, Table

WIDTH = 11.0


@dataclass(frozen=True, slots=True)
class Picture:
    """One of a paper's figures, drawn again; ``height`` in inches."""

    heading: str
    caption: str
    height: float
    draw: Callable[[Figure | SubFigure], None]


def save_findings(path: Path, findings: Findings, pictures: Sequence[Picture]) -> None:
    """A page for .html; for .svg and .png the pictures above each other."""
    if path.suffix.lower() == ".html":
        write_atomically(path, _page(findings, pictures))
        return
    figure = Figure(figsize=(WIDTH, sum(picture.height for picture in pictures)), layout="constrained")
    heights = [picture.height for picture in pictures]
    parts = np.asarray(figure.subfigures(len(pictures), 1, squeeze=False, height_ratios=heights)).reshape(-1)
    for part, picture in zip(parts, pictures, strict=True):
        picture.draw(part)
    save_figure(figure, path)


def _page(findings: Findings, pictures: Sequence[Picture]) -> str:
    sections = [_section(findings.numbers), Section("How, and why they differ", findings.reasons)]
    for picture in pictures:
        figure = Figure(figsize=(WIDTH, picture.height), layout="constrained")
        picture.draw(figure)
        sections.append(Section(picture.heading, svg=svg_text(figure), caption=picture.caption))
    sections += [_section(table) for table in findings.tables]
    return html_page(findings.title, sections)


def _section(table: Table) -> Section:
    return Section(table.heading, columns=table.head, rows=table.rows)
