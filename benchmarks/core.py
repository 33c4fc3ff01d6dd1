"""How fast the core is: building, proving and simulating.

Run with ``make bench``. The machine is shared and noisy, so every time stands beside that of a fixed piece of work done in
the same run (sorting ten million numbers), and the ratio of the two is what to compare between runs.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np

import weft
from benchmarks.publishing import publish
from weft import Network
from weft.collectives import COLLECTIVES, ring
from weft.network import two_tier

SIZE = 100e6


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def uneven(network: Network, seed: int = 0) -> Network:
    draw = np.random.default_rng(seed)
    return replace(
        network, links=tuple(replace(x, bandwidth=x.bandwidth * draw.uniform(0.9, 1.1)) for x in network.links)
    )


def reference() -> float:
    numbers = np.random.default_rng(0).random(10_000_000)
    return timed(lambda: np.sort(numbers))


def large_ring() -> dict[str, float]:
    network = two_tier(32, 32, oversubscription=4, latency=5e-6)
    times: dict[str, float] = {}
    schedule = ring(network)
    times["build 1024"] = timed(lambda: ring(network))
    times["prove 1024"] = timed(lambda: weft.verify(schedule))
    times["simulate 1024, equal"] = timed(lambda: weft.simulate(schedule, network, SIZE))
    other = uneven(network)
    times["simulate 1024, uneven"] = timed(lambda: weft.simulate(schedule, other, SIZE))
    times["build, prove, simulate 1024"] = times["build 1024"] + times["prove 1024"] + times["simulate 1024, equal"]
    return times


def every_collective() -> dict[str, float]:
    network = uneven(two_tier(8, 8, oversubscription=4, latency=5e-6))
    times: dict[str, float] = {}
    for name, collective in COLLECTIVES.items():
        schedule = collective(network)
        weft.verify(schedule)
        tries = [timed(partial(weft.simulate, schedule, network, SIZE)) for _ in range(3)]
        times[f"simulate 64 uneven, {name}"] = median(tries)
    return times


def start_up() -> dict[str, float]:
    def run(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    return {
        "import weft": median(timed(lambda: run("-c", "import weft")) for _ in range(5)),
        "weft --help": median(timed(lambda: run("-m", "weft", "--help")) for _ in range(5)),
        "weft compare, 8 workers": median(
            timed(lambda: run("-m", "weft", "compare", "two_tier:oversubscription=4")) for _ in range(3)
        ),
    }


def main() -> None:
    small = two_tier(2, 4)
    weft.simulate(ring(small), small, SIZE)  # compiles, once
    weft.verify(ring(small))
    unit = reference()
    times = large_ring() | every_collective() | start_up()
    for name, seconds in times.items():
        print(f"{name:38} {seconds:8.3f} s  {seconds / unit:7.2f} x sorting 10 M numbers")
    publish(
        "core",
        reference_seconds=round(unit, 4),
        seconds={name: round(seconds, 4) for name, seconds in times.items()},
        by_reference={name: round(seconds / unit, 3) for name, seconds in times.items()},
    )


if __name__ == "__main__":
    main()
