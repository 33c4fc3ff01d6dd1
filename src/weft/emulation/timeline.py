"""Conditions as events that the process inside can act on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from weft.network import Network
    from weft.simulation import Conditions

Kind = Literal["rate", "pause", "resume", "flow", "end of flow"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a link, a worker or a background so many seconds after the start."""

    at: float
    kind: Kind
    subject: int
    """The number of a link, of a worker, or of a background among the backgrounds."""
    value: float = 0.0
    """Of a rate: the part of the link's bandwidth. Of a flow: its bytes."""


@dataclass(frozen=True, slots=True)
class Flows:
    """A background: how many connections from one node to another."""

    source: int
    destination: int
    count: int


def events_of(conditions: Conditions, network: Network) -> list[Event]:
    """What the simulator does at the same times."""
    from weft.simulation.engine import (
        BACKGROUND_STARTS,
        BACKGROUND_STOPS,
        LINK_CHANGES,
        WORKER_PAUSES,
        WORKER_RESUMES,
    )

    kinds: dict[int, Kind] = {
        LINK_CHANGES: "rate",
        WORKER_PAUSES: "pause",
        WORKER_RESUMES: "resume",
        BACKGROUND_STARTS: "flow",
        BACKGROUND_STOPS: "end of flow",
    }
    found = []
    for at, number, subject, value in zip(*(column.tolist() for column in conditions.events(network, 0)), strict=True):
        kind = kinds[number]
        part = value / network.links[subject].bandwidth if kind == "rate" else value
        found.append(Event(at, kind, subject, part))
    return found


def flows_of(conditions: Conditions, network: Network) -> list[Flows]:
    """The backgrounds of conditions, in their order."""
    return [Flows(network.number(x.source), network.number(x.destination), x.flows) for x in conditions.backgrounds]
