"""The process inside: the first one of fresh process, mount and network namespaces, which all end with it.

Its arguments are two open files: one with its task, as JSON, and one for its answers, lines of JSON. Every byte that comes
over standard input is the number of a signal to pass on; its end is the end of whoever started us, and so of everything.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import Any

from weft.emulation.build import Built, Report, build
from weft.emulation.output import write_all
from weft.emulation.plan import Plan
from weft.emulation.running import Run
from weft.emulation.timeline import Event, Flows
from weft.emulation.workers import Worker, start_worker
from weft.errors import EmulationError

_STANDARD_ERROR = 2


def main() -> None:
    """Read what to do, do it, and say how it ended."""
    task, answers = (int(argument) for argument in sys.argv[1:])
    os.set_inheritable(answers, False)
    try:
        with os.fdopen(task) as file:
            code = _emulated(json.load(file), lambda done, whole: _answer(answers, done=done, whole=whole))
        _answer(answers, code=code)
    except (EmulationError, OSError) as error:
        _answer(answers, error=str(error))
    # Everything that still runs ends with this process.
    os._exit(0)


def _answer(file: int, **fields: int | str) -> None:
    write_all(file, json.dumps(fields).encode() + b"\n")


def _emulated(task: dict[str, Any], report: Report) -> int:
    plan = Plan.from_json(task["plan"])
    _allow_files(2 * len(plan.namespaces) + 2 * len(task["ranks"]) + 64)
    begun = time.monotonic()
    built = build(plan, report)
    if any(shape.latency for x in plan.namespaces for shape in x.shapes) and not built.delays:
        _note("this kernel has no netem: latencies are not emulated, rates are")
    workers = _workers(built, task)
    start = time.monotonic()
    if task["verbose"]:
        _note(f"{len(workers)} workers on {len(plan.namespaces)} nodes and {len(plan.cables)} cables "
              f"started in {start - begun:.2f} s")  # fmt: skip
    run = Run(built, workers, task["grace"], _note)
    run.schedule([Event(**x) for x in task["events"]], [Flows(**x) for x in task["flows"]], start)
    run.to_the_end(control=0)
    return run.code


def _workers(built: Built, task: dict[str, Any]) -> list[Worker]:
    started = []
    for rank, (node, variables) in enumerate(zip(task["ranks"], task["variables"], strict=True)):
        name, network = built.plan.namespaces[node].name, built.networks[node]
        started.append(start_worker(
            rank, node, name, network, task["command"], os.environ | variables,
            lambda data: write_all(_STANDARD_ERROR, data),
        ))  # fmt: skip
    return started


def _note(text: str) -> None:
    write_all(_STANDARD_ERROR, f"weft emulate: {text}\n".encode())


def _allow_files(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard)
        )
