"""Plan files: JSON with the network, the schedule and what was predicted; versioned, and checked when read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from weft.errors import InputError, WeftError
from weft.network import Network
from weft.planning.plan import Plan
from weft.proof import verify
from weft.schedule import Schedule

VERSION = 1


def plan_text(plan: Plan) -> str:
    """The plan as JSON."""
    document = {
        "weft_plan": VERSION,
        "digest": plan.digest,
        "bytes": plan.nbytes,
        "collective": plan.collective,
        "segments": plan.segments,
        "seconds": plan.seconds,
        "bound_seconds": plan.bound,
        "why": plan.why,
        "others": [list(other) for other in plan.others],
        "network": plan.network.to_yaml(),
        "whole": plan.whole.to_text(),
        "schedule": plan.schedule.to_text(),
    }
    return json.dumps(document, indent=1) + "\n"


def plan_from_file(path: Path) -> Plan:
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return plan_of(text, str(path))


def plan_of(text: str, name: str) -> Plan:
    """The plan of a text; the schedule is proved, and its digest compared with the one in the file."""
    try:
        document: dict[str, Any] = json.loads(text)
        version = document["weft_plan"]
        if version != VERSION:
            raise InputError(f"{name} is a plan of version {version}: this Weft reads version {VERSION}")
        network = Network.parse(document["network"], f"network in {name}")
        schedule = Schedule.parse(document["schedule"])
        if schedule.digest != document["digest"]:
            raise InputError(f"{name} says its digest is {document['digest']}, but its schedule has {schedule.digest}")
        verify(schedule)
        whole = Schedule.parse(document["whole"])
        others = tuple((str(other), _time(seconds)) for other, seconds in document["others"])
        plan = Plan(
            network, int(document["bytes"]), schedule, str(document["collective"]), int(document["segments"]),
            _time(document["seconds"]), _time(document["bound_seconds"]), str(document["why"]), whole, others,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, WeftError):
            raise
        raise InputError(f"{name} is not a plan that Weft wrote: {error}") from error
    for one in (schedule, whole):
        if one.workers != len(network.workers):
            raise InputError(
                f"{name} is not a plan that Weft wrote: a schedule for {one.workers} workers, a network of {len(network.workers)}"
            )
    if plan.nbytes < 1 or plan.segments < 1:
        raise InputError(f"{name} is not a plan that Weft wrote: {plan.nbytes} bytes in {plan.segments} segments")
    return plan


def _time(seconds: Any) -> float:
    found = float(seconds)
    if not 0 <= found < math.inf:
        raise ValueError(f"{seconds} is not a time")
    return found


def trees_of(plan: Plan, most: int = 64) -> list[dict[str, Any]]:
    """The heaviest chunks, each with its root and who sends to whom: ``[[source, destination], ...]``."""
    whole = plan.whole.expanded()
    names = plan.network.workers
    weights = whole.chunk_weights
    heaviest = sorted(range(len(weights)), key=lambda chunk: (-int(weights[chunk]), chunk))[:most]
    trees: list[dict[str, Any]] = []
    for chunk in heaviest:
        edges: dict[str, list[list[str]]] = {"reduce": [], "copy": []}
        for i in (whole.chunk == chunk).nonzero()[0].tolist():
            transfer = whole[i]
            edges[transfer.op].append([names[transfer.source], names[transfer.destination]])
        trees.append(
            {"share": int(weights[chunk]) / whole.whole, "reduce": edges["reduce"], "broadcast": edges["copy"]}
        )
    return trees
