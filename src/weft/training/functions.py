"""``module:function`` of the user's: found beside the training file or where Python finds modules, and called."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.training.options import Function


def called(place: str, function: Function, folder: Path, *arguments: Any) -> Any:
    """What the function returns; its own errors become one line that says where they were raised."""
    found = _found(place, function.path, folder)
    try:
        return found(*arguments, **function.keywords)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{place}: {function.path} failed {_where(error)}") from error


def _found(place: str, path: str, folder: Path) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    here = str(folder.resolve())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise InputError(f"{place}: {module} cannot be imported: {error}") from error
        raise InputError(
            f"{place}: there is no module {module!r}: put {module.partition('.')[0]}.py beside the training file, or install it"
        ) from error
    except Exception as error:
        raise InputError(f"{place}: {module} cannot be imported; it failed {_where(error)}") from error
    if not callable(function):
        raise InputError(f"{place}: the module {module!r} has no function {name!r}")
    return function  # type: ignore[no-any-return]


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    text = f"{type(error).__name__}: {error}"
    if not frames:
        return f"with {text}"
    return f"in {Path(frames[-1].filename).name}, line {frames[-1].lineno}, with {text}"
