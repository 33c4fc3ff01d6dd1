"""The one place where Weft meets its compiler.

``@compiled`` turns a function over arrays into machine code when it is first called and keeps the result on disk, so
that only the first run ever on a machine waits for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def _drop_stale_results() -> None:
    """Remove kept results that are older than a source beside theirs.

    The compiler looks only at the file of a function, not at those of the functions which it calls from there.
    """
    for kept in Path(__file__).parent.rglob("*.nbi"):
        with contextlib.suppress(OSError):
            if kept.stat().st_mtime < max(source.stat().st_mtime for source in kept.parent.parent.glob("*.py")):
                kept.unlink()


_drop_stale_results()


def compiled(function: Function) -> Function:
    """The function, compiled on its first call; no Python objects inside."""
    return _kept(function)


def compiled_in_place(function: Function) -> Function:
    """The same for functions that only work on the arrays they are given and make none.

    The compiler then counts no references. In the simulator's loop, counting took more than half of the time.
    """
    return _kept(function, _nrt=False)


def compiled_inside(function: Function) -> Function:
    """The same again for functions that only compiled ones call. They have no way in from Python, which for one that
    takes sixty arrays is longer than the function; calling one from Python is a crash.
    """
    return _kept(function, _nrt=False, no_cpython_wrapper=True)


def _kept(function: Function, **options: bool) -> Function:
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # there is no folder to write to, here or at home: compile in every run
        return cast(Function, numba.njit(**options)(function))


@compiled_inside
def wide(index: int) -> int:
    """An index in 64 bits: what is called with indexes of 32 bits too would be compiled twice."""
    return index + 0
