"""Simulate exported cases with SimGrid: /usr/bin/python3 tests/golden/simgrid_run.py FILE.json OUT.json

Every directed link is a SimGrid link of its own. Every pair of workers that send is an actor, which sends its transfers
one after the other, each when it has its data and the one before has arrived. An engine can be started once in a
process, so every case has its own.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

CONFIG = (
    "network/model:CM02 cpu/optim:Full network/optim:Full network/crosstraffic:0 network/TCP-gamma:0 network/weight-S:0"
)
Case = dict[str, Any]


def simulated(case: Case) -> float:
    """The seconds that SimGrid needs for a case. Only once in a process."""
    from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone, Semaphore

    engine = Engine(["golden", "--log=root.thres:warning", *(f"--cfg={setting}" for setting in CONFIG.split())])
    zone = NetZone.create_full_zone("network")
    hosts = [zone.create_host(str(rank), 1e9).seal() for rank in range(case["workers"])]
    links = [
        zone.create_link(str(i), link["bandwidth"]).set_latency(link["latency"]).seal()
        for i, link in enumerate(case["links"])
    ]
    for route in case["routes"]:
        ends = hosts[route["source"]].netpoint, hosts[route["destination"]].netpoint
        zone.add_route(*ends, None, None, [LinkInRoute(links[i]) for i in route["links"]], False)
    zone.seal()

    transfers = case["transfers"]
    missing = [len(transfer["after"]) for transfer in transfers]
    ready = [Semaphore(int(count == 0)) for count in missing]
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    channels: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for i, transfer in enumerate(transfers):
        channels[transfer["source"], transfer["destination"]].append(i)
        for earlier in transfer["after"]:
            waiting[earlier].append(i)
    arrived = 0

    def send(source: int, destination: int) -> None:
        nonlocal arrived
        for i in channels[source, destination]:
            ready[i].acquire()
            Comm.sendto(hosts[source], hosts[destination], transfers[i]["bytes"])
            arrived += 1
            for later in waiting[i]:
                missing[later] -= 1
                if missing[later] == 0:
                    ready[later].release()

    for source, destination in channels:
        Actor.create(f"{source}>{destination}", hosts[source], send, source, destination)
    engine.run()
    assert arrived == len(transfers), f"{arrived} of {len(transfers)} transfers arrived"
    return float(engine.clock)


def in_own_process(case: Case) -> float:
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(case), stdout=subprocess.PIPE, text=True, check=True
    )
    return float(done.stdout)


def check_model() -> None:
    """Two routes in opposite directions do not disturb each other; on one link, flows share by one over the latency."""
    links = [{"name": str(i), "bandwidth": 1e9, "latency": latency} for i, latency in enumerate((1e-5, 1e-5, 2e-5))]

    def seconds(*transfers: tuple[int, int, int, list[int]]) -> float:
        return in_own_process(
            {
                "workers": 3,
                "links": links,
                "routes": [{"source": a, "destination": b, "links": route} for a, b, _, route in transfers],
                "transfers": [{"source": a, "destination": b, "bytes": n, "after": []} for a, b, n, _ in transfers],
            }
        )

    assert math.isclose(seconds((0, 1, 10**8, [0]), (1, 0, 10**8, [1])), 1e-5 + 0.1, rel_tol=1e-9)
    # Latencies 10 us and 30 us on a common link: 3/4 of it and 1/4, until the first has sent its 75 MB; each begins to
    # flow after its latency, so the first has the link alone for 20 us.
    alone = 1e9 * 2e-5
    first = 3e-5 + (75e6 - alone) / 0.75e9
    rest = 75e6 - (first - 3e-5) * 0.25e9
    assert math.isclose(seconds((0, 1, 75_000_000, [0]), (0, 2, 75_000_000, [0, 2])), first + rest / 1e9, rel_tol=1e-9)


def main(source: str, target: str) -> None:
    from simgrid import simgrid_version

    check_model()
    seconds: dict[str, float] = {}
    for case in json.loads(Path(source).read_text()):
        began = time.perf_counter()
        seconds[case["name"]] = in_own_process(case)
        print(f"{case['name']}: {seconds[case['name']]:.9f} s, simulated in {time.perf_counter() - began:.1f} s")
    result = {"made_with": f"SimGrid {simgrid_version}, {CONFIG}", "seconds": seconds}
    Path(target).write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(sys.argv[1], sys.argv[2])
    elif len(sys.argv) == 1 and not sys.stdin.isatty():
        print(repr(simulated(json.load(sys.stdin))))
    else:
        sys.exit("usage: simgrid_run.py FILE.json OUT.json")
