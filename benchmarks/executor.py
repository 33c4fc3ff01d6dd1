"""How fast schedules are executed: a ring of processes on this machine's loopback, against the backend's own all-reduce.

Run with ``python -m benchmarks.executor``. The machine may be busy, so the two alternate within one run and their ratio is what
counts: of the medians, and of the fastest of each. The processor time that each takes on rank 0 stands beside it, because a busy
machine does not change it much.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from statistics import median
from typing import Any, NamedTuple

from benchmarks.publishing import publish

MB = 1_000_000
SIZES = (25 * MB, 1 * MB, 4000)
SEGMENTS = (1, 2, 4, 8)


class Sample(NamedTuple):
    """One all-reduce on rank 0: seconds that passed, and seconds in which a processor worked for it."""

    wall: float
    processor: float


def measure(repeat: int) -> list[dict[str, Any]]:
    """On every rank: all sizes and segments, each turn after the backend's own."""
    import torch
    import torch.distributed as dist

    import weft.torch as wt
    from weft.collectives import ring
    from weft.network import full_mesh

    dist.init_process_group("gloo")
    schedules = {n: ring(full_mesh(dist.get_world_size())).segmented(n) for n in SEGMENTS}
    rows = []
    for size in SIZES:
        tensor = torch.zeros(size // 4)
        backend: list[Sample] = []
        ours: dict[int, list[Sample]] = {n: [] for n in SEGMENTS}
        for turn in range(repeat + 2):
            for n, schedule in schedules.items():
                for times, work in (
                    (backend, lambda: dist.all_reduce(tensor)),  # noqa: B023
                    (ours[n], lambda: wt.all_reduce(tensor, schedule, "sum")),  # noqa: B023
                ):
                    dist.barrier()
                    begun, worked = time.perf_counter(), time.process_time()
                    work()
                    sample = Sample(time.perf_counter() - begun, time.process_time() - worked)
                    if turn > 1:  # the first two connect, compile and fill caches
                        times.append(sample)
        rows.append(row_of(size, backend, ours))
    dist.barrier()
    return rows


def row_of(size: int, backend: list[Sample], ours: dict[int, list[Sample]]) -> dict[str, Any]:
    wall = median(sample.wall for sample in backend)
    return {
        "bytes": size,
        "backend_seconds": round(wall, 6),
        "backend_processor_seconds": round(median(sample.processor for sample in backend), 6),
        "weft_seconds": {str(n): round(median(s.wall for s in times), 6) for n, times in ours.items()},
        "weft_processor_seconds": {str(n): round(median(s.processor for s in times), 6) for n, times in ours.items()},
        "ratio_of_the_fastest": {
            str(n): round(min(s.wall for s in times) / min(s.wall for s in backend), 3) for n, times in ours.items()
        },
        "ratio": {str(n): round(median(s.wall for s in times) / wall, 3) for n, times in ours.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=9)
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        rows = measure(arguments.repeat)
        if os.environ["RANK"] == "0":
            print(json.dumps(rows))
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "WORLD_SIZE": str(arguments.workers),
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.executor", "--repeat", str(arguments.repeat)],
            env=os.environ | common | {"RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(arguments.workers)
    ]
    load = os.getloadavg()[0]
    outputs = [rank.communicate()[0] for rank in ranks]
    rows = json.loads(outputs[0].splitlines()[-1])
    what = (
        f"ring of {arguments.workers} processes on loopback, by segments, against gloo; medians of {arguments.repeat}"
    )
    publish("executor", f"{os.cpu_count()} cores", load_before=round(load, 1), what=what, results=rows)
    print("medians; in brackets the ratio of the medians, and of the fastest")
    for row in rows:
        print(f"{row['bytes']:>10} bytes  gloo {1e3 * row['backend_seconds']:8.2f} ms", end="")
        for n, seconds in row["weft_seconds"].items():
            ratios = f"{row['ratio'][n]:.2f}, {row['ratio_of_the_fastest'][n]:.2f}"
            print(f"  x{n} {1e3 * seconds:8.2f} ms ({ratios})", end="")
        print()


if __name__ == "__main__":
    main()
