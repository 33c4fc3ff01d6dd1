"""Choice: how tensors are averaged, by their size. A plan is made for one size; gradients come in several."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from weft.errors import InputError, WeftError
from weft.schedule import Schedule

if TYPE_CHECKING:
    from weft.planning import Plan

BACKEND: Final = "backend"
VERSION = 1
Way: TypeAlias = "Plan | Schedule | Literal['backend']"
"""a plan, a schedule, or the backend's own all-reduce"""
Given: TypeAlias = "Choice | Plan | Schedule | Sequence[Plan] | str | Path"
"""what people may give: ``"backend"``, or any other text as the path of a plan file"""


@dataclass(frozen=True, slots=True)
class Choice:
    """Ways, each with the bytes that it is for; a tensor takes the one whose size is nearest, as a ratio."""

    ways: tuple[tuple[int, Way], ...]

    def __post_init__(self) -> None:
        if not self.ways:
            raise InputError("no plan was given: give at least one, or 'backend'")

    @staticmethod
    def of(given: Given) -> Choice:
        """The choice that a person means."""
        if isinstance(given, Choice):
            return given
        if isinstance(given, Schedule) or given == BACKEND:
            return Choice(((1, given),))  # type: ignore[arg-type]
        from weft.planning import Plan

        if given == "auto":
            raise InputError("'auto' is for DataParallel, which measures: plan first, such as with weft.torch.plan")
        if isinstance(given, str | Path):
            return Choice.of(Plan.load(given))
        plans = [given] if isinstance(given, Plan) else given
        listed: Any = plans  # what is given may be anything
        if not isinstance(listed, Sequence) or not all(isinstance(plan, Plan) for plan in listed):
            raise InputError(
                f"{given!r} is not a plan: give a Plan or several, a Schedule, the path of a plan file, or 'backend'"
            )
        return Choice(tuple(sorted(((plan.nbytes, plan) for plan in plans), key=lambda entry: entry[0])))

    def way(self, nbytes: int) -> Way:
        """The way for a tensor of so many bytes."""
        return min(self.ways, key=lambda entry: abs(math.log(max(nbytes, 1) / max(entry[0], 1))))[1]

    def check(self, ranks: int) -> None:
        """Refuse what was planned for others: every rank has gradients, so every rank must take part."""
        for _, way in self.ways:
            if way == BACKEND:
                continue
            schedule = schedule_of(way)
            if schedule.workers != ranks:
                raise InputError(f"a schedule for {schedule.workers} ranks cannot run on {ranks}: plan again")
            if len(schedule.participants) != ranks:
                absent = sorted(set(range(ranks)) - set(schedule.participants))
                raise InputError(
                    f"ranks {absent} would train without the others: plan for a network where all are active"
                )

    @property
    def digest(self) -> str:
        """A fingerprint of all ways."""
        parts = [f"{size} {name_of(way)} {_digest(way)}" for size, way in self.ways]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def to_text(self) -> str:
        """JSON with plan files and schedules as they are; ``parse`` is the inverse."""
        return json.dumps({"weft_choice": VERSION, "ways": [[size, *_written(way)] for size, way in self.ways]})

    @staticmethod
    def parse(text: str) -> Choice:
        """The choice of a text; every schedule in it is proved."""
        try:
            document: dict[str, Any] = json.loads(text)
            if document["weft_choice"] != VERSION:
                raise InputError(f"a choice of version {document['weft_choice']}: this Weft reads version {VERSION}")
            return Choice(tuple((int(size), _read(kind, body)) for size, kind, body in document["ways"]))
        except WeftError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is not a choice of plans that Weft wrote: {error}") from error

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(name_of(way) for _, way in self.ways))


def schedule_of(way: Plan | Schedule) -> Schedule:
    return way if isinstance(way, Schedule) else way.schedule


def name_of(way: Way) -> str:
    """In words: which collective, in how many segments."""
    if isinstance(way, str):
        return "the backend's own all-reduce"
    if isinstance(way, Schedule):
        return way.name
    return f"{way.collective} in {way.segments} segments" if way.segments > 1 else way.collective


def _digest(way: Way) -> str:
    return BACKEND if isinstance(way, str) else schedule_of(way).digest


def _written(way: Way) -> tuple[str, str]:
    if isinstance(way, str):
        return BACKEND, ""
    if isinstance(way, Schedule):
        return "schedule", way.to_text()
    from weft.planning.files import plan_text

    return "plan", plan_text(way)


def _read(kind: str, body: str) -> Way:
    if kind == BACKEND:
        return BACKEND
    if kind == "schedule":
        from weft.proof import verify

        schedule = Schedule.parse(body)
        verify(schedule)
        return schedule
    if kind == "plan":
        from weft.planning.files import plan_of

        return plan_of(body, "a saved plan")
    raise InputError(f"{kind!r} is not a way to average: this choice was not written by Weft")
