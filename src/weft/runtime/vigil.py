"""Vigils: waits besides executions, such as for the answer of a parameter server.

How long they may last nobody knows, because others compute, test and write meanwhile. So a long one is no failure, but whoever is
waited for must be alive: where it lasts longer than measured times allow, the roll is called, and a rank that is silent is the
failure. Ranks that others go on without (``LEFT_OUT``) are not missed.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.runtime.deadline import Term

LEFT_OUT = "left-out"


@dataclass(frozen=True, slots=True, eq=False)
class Vigil:
    """One wait: for what, and from whom if that is known."""

    what: str
    peer: int | None
    term: Term
