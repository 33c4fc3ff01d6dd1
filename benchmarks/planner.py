"""How fast the planner is, and how near to the bound: bounds, packings, plans, few trees, the command line.

Run with ``make bench``, on an idle machine: packings and plans stop when their time is over, so on a busy one they are worse and
not only later. Everything runs on one core. The random networks 0 to 49 are those of the tests; those from 400 on are held out:
nothing was tuned on them (300 to 329 were until their results were looked into).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import mean, median
from typing import Any

import weft
from benchmarks.core import SIZE, reference, timed, uneven
from benchmarks.publishing import publish
from weft import Network
from weft.bounds import bound
from weft.network import fat_tree, machines, two_tier
from weft.packing.cut_bound import cut_bound
from weft.packing.few import few_trees
from weft.packing.pack import pack
from weft.reproductions.gpu_networks import first_of_each, gpu_mesh, with_active

LATENCY = 20e-6
FEW = (1, 2, 4, 8, 16)
SEEDS, HELD_OUT = range(50), range(400, 430)
SECONDS_FOR_FEW, SECONDS_FOR_RANDOM = 3.0, 10.0
SECONDS_TO_PLAN = {1024: 30.0}
"""for so many workers; 10 for fewer"""

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
_tests: Any = import_module("test_packing")


def named() -> dict[str, tuple[Network, float]]:
    """Networks, and how many seconds a packing has."""
    small: dict[str, Network] = dict(_tests.NAMED)
    for counts in ((1, 1, 0, 0), (2, 1, 1, 0)):
        small[f"4x4 full mesh, active {counts}"] = with_active(gpu_mesh(4, 4, 10), first_of_each(counts))
    found = {name: (network, 10.0) for name, network in small.items()}
    found["fat tree of 128"] = fat_tree(8), 10.0
    found["4 DGX-1"] = machines(4, 8, "dgx1"), 10.0
    found["8x8 mesh"] = _tests.grid(8), 10.0
    found["8x8 mesh, uneven"] = uneven(_tests.grid(8)), 10.0
    found["64 workers, uneven"] = uneven(two_tier(8, 8, oversubscription=4)), 10.0
    found["32 DGX-1"] = machines(32, 8, "dgx1"), 20.0
    found["256 workers, uneven"] = uneven(two_tier(16, 16, oversubscription=4)), 20.0
    found["1024 workers, equal"] = two_tier(32, 32, oversubscription=4), 60.0
    return found


def late(network: Network) -> Network:
    return replace(network, links=tuple(replace(link, latency=LATENCY) for link in network.links))


def bounds() -> dict[str, Any]:
    """Seconds that the bounds take on uneven two-tier networks."""
    found: dict[str, Any] = {}
    for racks in (8, 16, 32):
        network = uneven(two_tier(racks, racks, oversubscription=4))
        found[f"{racks**2} workers"] = round(timed(partial(bound, network, SIZE)), 4)
        if racks < 32:
            found[f"{racks**2} workers, cut bound"] = round(timed(partial(cut_bound, network)), 4)
    show("bound", ((name, f"{seconds:8.3f} s") for name, seconds in found.items()))
    return found


def packings() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (network, seconds) in named().items():
        packing = pack(network, gap=0.003 if len(network.active) <= 64 else 0.01, seconds=seconds)
        found[name] = {
            "seconds": round(packing.seconds, 4), "quality": round(packing.quality, 5), "trees": len(packing.trees),
        }  # fmt: skip
        show("pack", [(name, f"{packing.seconds:8.3f} s  {packing.quality:7.2%} of the bound")])
    for title, seeds in (("random", SEEDS), ("held out", HELD_OUT)):
        qualities = [pack(_tests.random_network(seed)).quality for seed in seeds]
        found[title] = {"worst": round(min(qualities), 5), "mean": round(mean(qualities), 5)}
        show("pack", [(title, f"worst {min(qualities):.2%}, mean {mean(qualities):.2%} of the bound")])
    return found


def plans() -> dict[str, Any]:
    """How long planning takes, and what the plan takes in the simulation as a part of the bound."""
    found: dict[str, Any] = {}
    for name, (network, _) in named().items():
        found[name] = planned(late(network), SECONDS_TO_PLAN.get(len(network.active), 10.0))
        times = found[name]
        show("plan", [(name, f"{times['seconds']:8.3f} s  {times['ratio']:7.4f} x bound  {times['collective']}")])
    for title, seeds in (("random", SEEDS), ("held out", HELD_OUT)):
        each = {seed: planned(late(_tests.random_network(seed)), SECONDS_FOR_RANDOM) for seed in seeds}
        ratios = [plan["ratio"] for plan in each.values()]
        found[title] = {
            "ratios": {seed: plan["ratio"] for seed, plan in each.items()},
            "mean": round(mean(ratios), 4), "median": round(median(ratios), 4), "worst": max(ratios),
            "seconds": round(mean(plan["seconds"] for plan in each.values()), 4),
        }  # fmt: skip
        line = f"mean {mean(ratios):.4f}, median {median(ratios):.4f}, worst {max(ratios):.4f} x bound"
        show("plan", [(title, f"{found[title]['seconds']:8.3f} s each; {line}")])
    return found


def planned(network: Network, seconds: float) -> dict[str, Any]:
    plan: weft.Plan | None = None

    def make() -> None:
        nonlocal plan
        plan = weft.plan(network, SIZE, seconds=seconds)

    took = timed(make)
    assert plan is not None
    return {"seconds": round(took, 4), "ratio": round(plan.seconds / plan.bound, 4), "collective": plan.collective}


def few() -> dict[str, Any]:
    """What a limited number of trees loses against any number."""
    some = ("DGX-1", "4x4 at 25 Gbit/s", "two-tier 4x8, 4:1", "4x4 full mesh, active (2, 1, 1, 0)")
    found: dict[str, Any] = {}
    for name in some:
        network = named()[name][0]
        losses = {most: round(few_trees(network, most, seconds=SECONDS_FOR_FEW).loss, 4) for most in FEW}
        found[name] = losses
        show("few trees", [(name, "  ".join(f"{most}: {loss:.1%}" for most, loss in losses.items()))])
    return found


def shell() -> dict[str, Any]:
    """``weft plan`` on eight workers, from starting it to its last line."""
    found: dict[str, Any] = {}
    for network in ("two_tier:racks=2,workers_per_rack=4,oversubscription=4", "dgx1", "full_mesh:workers=8"):
        command = [sys.executable, "-m", "weft", "plan", network, "--size", "100MB"]
        tries = [timed(partial(subprocess.run, command, check=True, capture_output=True)) for _ in range(3)]
        found[network] = round(median(tries), 3)
    show("weft plan", ((name, f"{seconds:8.3f} s") for name, seconds in found.items()))
    return found


def show(title: str, lines: Iterable[tuple[str, str]]) -> None:
    for name, text in lines:
        print(f"{title:10} {name:52} {text}", flush=True)


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    small = two_tier(2, 2)
    weft.plan(small, SIZE)  # compiles, once
    cut_bound(small.with_active(small.workers[:3]))
    unit = reference()
    publish(
        "planner",
        "one core",
        reference_seconds=round(unit, 4),
        bytes=SIZE,
        latency_seconds=LATENCY,
        bound_seconds=bounds(),
        packings=packings(),
        few_trees_loss=few(),
        shell_seconds=shell(),
        plans=plans(),
    )


if __name__ == "__main__":
    main()
