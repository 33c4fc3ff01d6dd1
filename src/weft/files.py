"""Files are written whole or not at all, and JSON can be read by all."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

from weft.errors import InputError


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside the target and move into place, so that no reader ever sees half a file."""
    data = content.encode() if isinstance(content, str) else content
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        temporary = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def without_nan(document: Any) -> Any:
    """What JSON has no number for, as null."""
    if isinstance(document, dict):
        return {key: without_nan(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [without_nan(value) for value in document]
    return None if isinstance(document, float) and not math.isfinite(document) else document
