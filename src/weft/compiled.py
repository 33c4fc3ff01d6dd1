"""The one place where Weft meets its compiler.

``@compiled`` turns a function over arrays into machine code when it is first called and keeps the result on disk, so
that only the first run ever on a machine waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function, compiled on its first call; no Python objects inside."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def compiled_in_place(function: Function) -> Function:
    """The same for functions that only work on the arrays they are given and make none.

    The compiler then counts no references. In the simulator's loop, counting took more than half of the time.
    """
    return cast(Function, numba.njit(cache=True, nogil=True, _nrt=False)(function))
