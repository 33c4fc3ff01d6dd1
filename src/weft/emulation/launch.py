"""Run a command as every worker of a network, on this machine.

A second process is started inside fresh namespaces, as root directly and otherwise with a user namespace around them. It
makes the network and starts the workers. Everything in there ends with it, and it ends when the process that started it
does: nothing is left, however an emulation ends, and two of them do not see each other.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from weft.emulation.addresses import INTERFACE, address
from weft.emulation.outside import Progress, run_inside
from weft.emulation.plan import plan_of
from weft.emulation.timeline import events_of, flows_of
from weft.errors import EmulationError, InputError

if TYPE_CHECKING:
    from weft.network import Network
    from weft.simulation import Conditions

MASTER_PORT = 29500
QUEUE_SECONDS = 0.02
GRACE_SECONDS = 10.0


def emulate(
    network: Network,
    command: Sequence[str],
    conditions: Conditions | None = None,
    *,
    network_file: Path | None = None,
    queue: float = QUEUE_SECONDS,
    grace: float = GRACE_SECONDS,
    verbose: bool = False,
    progress: Progress | None = None,
) -> int:
    """Run ``command`` as every active worker; the exit code of the first that failed, or 0.

    Every link has a queue of ``queue`` seconds of its bandwidth. When a worker fails, the others have ``grace`` seconds
    to end by themselves. ``network_file`` is where workers find the network; without one, it is written for them.
    ``progress`` is told how many nodes are built.
    """
    from weft.simulation import Conditions

    command = [_executable(command), *command[1:]]
    _require_tools()
    conditions = conditions or Conditions()
    flows = flows_of(conditions, network)
    plan = plan_of(network, queue, [(flow.source, flow.destination) for flow in flows])
    with _network_file(network, network_file) as path:
        task = {
            "plan": plan.to_json(),
            "command": command,
            "ranks": list(network.active),
            "variables": [variables(network, rank, path) for rank in range(len(network.active))],
            "events": [asdict(event) for event in events_of(conditions, network)],
            "flows": [asdict(flow) for flow in flows],
            "grace": grace,
            "verbose": verbose,
        }
        return run_inside(task, progress)


def variables(network: Network, rank: int, network_file: Path) -> dict[str, str]:
    """What a worker finds in its environment. Every worker is a host of its own, so its local rank is 0."""
    threads = max(1, len(os.sched_getaffinity(0)) // len(network.active))
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(len(network.active)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": address(network.active[0]),
        "MASTER_PORT": str(MASTER_PORT),
        "GLOO_SOCKET_IFNAME": INTERFACE,
        "NCCL_SOCKET_IFNAME": INTERFACE,
        "TP_SOCKET_IFNAME": INTERFACE,
        "WEFT_NETWORK": str(network_file),
        "WEFT_WORKER": network.workers[network.active[rank]],
        # Workers share the machine's cores, and a library that takes all of them for each worker is slower.
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
    }


def _executable(command: Sequence[str]) -> str:
    if not command:
        raise InputError(
            "there is no command: write it behind --, such as weft emulate cluster.yaml -- python train.py"
        )
    found = shutil.which(command[0])
    if found is None:
        raise InputError(
            f"there is no command {command[0]!r}: give the name of a program, or the path of an executable"
        )
    return found


def _require_tools() -> None:
    missing = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
    if sys.platform != "linux" or missing:
        lack = f"{' and '.join(missing)} not found; install iproute2 and util-linux" if missing else "it is not Linux"
        raise EmulationError(f"this machine cannot emulate: {lack}")


@contextmanager
def _network_file(network: Network, given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        path = Path(folder, "network.yaml")
        network.save(path)
        yield path
