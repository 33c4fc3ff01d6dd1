"""One worker of a fault case: all-reduces one after the other until something fails, and writes down what it was told.

``python -m benchmarks.fault_worker TASK FOLDER``, under ``weft emulate``; a JSON file says what to do. Whoever is to be killed
or stopped does it to itself, in the middle of an all-reduce; links are cut and slowed by the emulation.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from threading import Timer
from typing import Any

import torch
import torch.distributed as dist

import weft.torch as wt
from weft.bounds import bound
from weft.collectives import COLLECTIVES
from weft.errors import ExecutionError
from weft.network import Network
from weft.planning import Plan
from weft.planning.files import plan_of, plan_text
from weft.simulation import simulate
from weft.torch.choice import BACKEND, Choice, Way
from weft.torch.flights import Averaging

WARM = 3
"""all-reduces before a worker kills or stops itself"""
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def work_of(task: dict[str, Any]) -> Way:
    """What is executed: a collective in pieces, for a forest the plan that rank 0 makes, or the backend's own all-reduce."""
    if task["collective"] == BACKEND:
        return BACKEND
    network = Network.load(os.environ["WEFT_NETWORK"])
    if task["collective"] != "forest":
        return COLLECTIVES[task["collective"]](network).segmented(2)

    def text() -> str:
        schedule = COLLECTIVES["forest"](network)
        seconds, least = simulate(schedule, network, task["bytes"]).seconds, bound(network, task["bytes"]).seconds
        return plan_text(Plan(network, task["bytes"], schedule, "forest", 1, seconds, least, "asked for", schedule))

    return plan_of(wt.communicator().from_rank_0(text, 300.0), "rank 0's plan")


def reduce_once(tensor: torch.Tensor, work: Way, timeout: float) -> None:
    Averaging(Choice.of(work), timeout=timeout).launch(tensor).wait()


def at_work(task: dict[str, Any], rank: int, folder: Path) -> dict[str, Any]:
    """All-reduces until one fails or the time is over; what was said then."""
    work = work_of(task)
    tensor = torch.ones(task["bytes"] // 4)
    reduce_once(tensor, work, 120.0)  # workers start at different times
    (folder / f"started-{rank}").write_text(str(time.monotonic() - task["begun"]))
    ends = time.monotonic() + task["seconds"]
    number = SIGNALS.get(task["fault"]) if rank == task["victim"] else None
    done, took = 0, 0.0
    while time.monotonic() < ends:
        if number is not None and done == WARM:
            Timer(took / 2, lambda number=number: os.kill(os.getpid(), number)).start()
        begun = time.monotonic()
        try:
            reduce_once(tensor, work, task["deadline"])
        except ExecutionError as error:
            waits = [list(pair) for pair in getattr(error, "waits", ())]
            return {
                "seconds": time.monotonic() - begun,
                "culprits": list(getattr(error, "culprits", ())),
                "waits": waits,
                "error": f"{type(error).__name__}: {error}",
                "done": done,
            }
        took = time.monotonic() - begun
        done += 1
        (folder / f"done-{rank}").write_text(str(done))
    return {"seconds": None, "culprits": [], "waits": [], "error": "", "done": done}


def main() -> None:
    task, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    rank = int(os.environ["RANK"])
    space = str(Path("/proc/self/ns/net").readlink())
    (folder / f"namespace-{rank}").write_text(space)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    told = at_work(task, rank, folder)
    (folder / f"told-{rank}.json").write_text(json.dumps(told))
    sys.exit(1 if told["error"] else 0)


if __name__ == "__main__":
    main()
