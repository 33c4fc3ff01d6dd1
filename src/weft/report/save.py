"""Figures as files and as text; the same figure gives the same bytes."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from weft.errors import InputError
from weft.files import write_atomically

ENDINGS = (".svg", ".png")
_DOTS_PER_INCH = 160
_MOST_DOTS = 30_000
"""in either direction; larger images are refused by what has to show them"""
_SAME_BYTES: dict[Any, Any] = {"svg.hashsalt": "weft", "svg.fonttype": "none"}


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write the figure, whole or not at all, as what the ending of the path says."""
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"cannot draw {path}: the ending {path.suffix!r} is unknown; use {' or '.join(ENDINGS)}")
    write_atomically(path, svg_text(figure) if ending == ".svg" else _png(figure))


def svg_text(figure: Figure) -> str:
    """The figure as SVG; its texts stay texts."""
    return _rendered(figure, "svg", {"Date": None, "Creator": "weft"}).decode()


def _png(figure: Figure) -> bytes:
    return _rendered(figure, "png", {"Software": "weft"})


def _rendered(figure: Figure, form: str, metadata: dict[str, str | None]) -> bytes:
    content = io.BytesIO()
    dots = min(_DOTS_PER_INCH, _MOST_DOTS / float(max(figure.get_size_inches())))
    with matplotlib.rc_context(_SAME_BYTES), warnings.catch_warnings():
        # A name may have characters that our font lacks; whoever opens an SVG may have them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(content, format=form, dpi=dots, metadata=metadata)
    return content.getvalue()
