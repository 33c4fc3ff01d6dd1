"""What real TCP makes of a schedule, against what fluid sharing predicts: parameter servers, rings, RAT.

Run with ``python -m benchmarks.incast`` on an otherwise idle machine that can emulate networks. 8 workers in 2 racks, each in
its own network namespace, hosts at 200 Mbit/s so that the processor is not what is measured (a ring shows that it is not).
Many flows that meet at one host (incast) fill its queue; the part of the fluid rate that is left is what a prediction for
such a schedule must be divided by. Queues of several lengths are tried, as switches differ in that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.publishing import publish
from weft.collectives import parameter_server, rat, ring_ordered
from weft.network import Network, two_tier
from weft.schedule import Schedule
from weft.simulation import simulate

MBIT = 1e6 / 8
SIZE = 10_000_000
FRAMING = 1448 / 1514
"""What of a link's rate is payload."""
RATIOS = (1, 4)
QUEUES = ("5ms", "20ms")
REPEAT = 5


def schedules_of(network: Network) -> dict[str, Schedule]:
    trees = rat(network)
    return {
        "parameter-server": parameter_server(network),
        "ring-ordered": ring_ordered(network),
        "rat": trees,
        "rat in 2 segments": trees.segmented(2),
    }


def measure(network: Network) -> dict[str, float]:
    """On every rank: each schedule in turn, medians."""
    import torch
    import torch.distributed as dist

    import weft.torch as wt

    dist.init_process_group("gloo")
    tensor = torch.zeros(SIZE // 4)
    schedules = schedules_of(network)
    times: dict[str, list[float]] = {name: [] for name in schedules}
    for turn in range(REPEAT + 1):
        for name, schedule in schedules.items():
            dist.barrier()
            begun = time.perf_counter()
            wt.all_reduce(tensor, schedule, "sum", timeout=60)
            dist.barrier()
            if turn:  # the first connects
                times[name].append(time.perf_counter() - begun)
    dist.destroy_process_group()
    return {name: median(found) for name, found in times.items()}


def emulated(network: Network, queue: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.yaml"
        network.save(path)
        command = ["weft", "emulate", str(path), "--queue", queue, "--"]
        worker = [sys.executable, "-m", "benchmarks.incast", str(path)]
        done = subprocess.run([sys.executable, "-m", *command, *worker], check=True, stdout=subprocess.PIPE)
        found: dict[str, float] = json.loads(done.stdout)
        return found


def rows() -> list[dict[str, Any]]:
    found = []
    for ratio in RATIOS:
        network = two_tier(2, 4, 200 * MBIT, ratio)
        fluid = {name: simulate(s, network, SIZE / FRAMING).seconds for name, s in schedules_of(network).items()}
        for queue in QUEUES:
            measured = emulated(network, queue)
            for name, seconds in measured.items():
                found.append(
                    {
                        "oversubscription": ratio,
                        "queue": queue,
                        "schedule": name,
                        "fluid_seconds": round(fluid[name], 4),
                        "measured_seconds": round(seconds, 4),
                        "part_of_fluid_rate": round(fluid[name] / seconds, 3),
                    }
                )
                part = f"fluid {fluid[name]:.2f} s, TCP {seconds:.2f} s: {fluid[name] / seconds:.0%}"
                print(f"{ratio}:1  {queue:6} {name:18} {part}", flush=True)
    return found


def main() -> None:
    if len(sys.argv) > 1:
        times = measure(Network.load(sys.argv[1]))
        if os.environ["RANK"] == "0":
            print(json.dumps(times))
        return
    control = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    publish("incast", f"TCP {control}", bytes=SIZE, workers=8, rows=rows())


if __name__ == "__main__":
    main()
