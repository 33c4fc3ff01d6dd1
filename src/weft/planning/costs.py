"""Costs: what executing a schedule takes beside what its bytes take on the links."""

from __future__ import annotations

from dataclasses import dataclass, fields

from weft.errors import InputError


@dataclass(frozen=True, slots=True)
class Costs:
    """What one message and one added byte take, in seconds, how long a receiver takes to notice, how unevenly links are shared.

    Without costs of messages, segments are free and plans have too many; without unfairness, plans in which many connections
    meet look better than they are; without efficiency, all predictions are too short. See ``weft.simulate`` for what each does.
    """

    message_seconds: float = 0.0
    add_seconds_per_byte: float = 0.0
    wake_seconds: float = 0.0
    unfairness: float = 0.0
    efficiency: float = 1.0

    def __post_init__(self) -> None:
        if not all(0 <= getattr(self, field.name) < 10 for field in fields(self)) or not 0 < self.efficiency <= 1:
            raise InputError(f"{self} is not possible: all are 0 or more, and an efficiency is at most 1")
