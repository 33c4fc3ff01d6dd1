"""Communication time per step, real, of DS-Sync and what it is measured against, on emulated networks.

Run ``python -m benchmarks.groups NAME`` for a scenario on an otherwise idle machine that can emulate networks; without a name all
three run. Every method synchronizes 25 MB on eight workers, several steps in a row without
a pause; what counts is the time of such a row on the slowest worker, divided by its steps, in the median over several turns.
DS-Sync finds out by itself what is slow: it first shuffles without dividing, and then adjusts by the times that came out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.group_scenarios import GroupScenario, group_scenarios
from benchmarks.publishing import publish_rows
from weft.network import Network

NBYTES = 25_000_000
LOCAL_STEPS = 8
"""steps between averages of post-local SGD"""
ROW = 8
"""Steps of a row at least; patterns have whole periods."""
PLANNING_SECONDS = 5.0
TARGETS = {"inter-rack and end-host": 1.6, "inter-rack": 1.58, "static": 1.25}
"""the paper's ratios, DS-Sync over all-reduce"""


class Methods:
    """On one rank: functions that take one step each, and after how many they begin again."""

    def __init__(self, network: Network, left: Network, nbytes: int) -> None:
        import torch
        import torch.distributed as dist
        from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

        import weft.torch as wt
        from weft.collectives import COLLECTIVES
        from weft.groups import ExponentialGraph
        from weft.strategies import Averaging, Options, strategy_of

        self._dist = dist
        self.us = wt.communicator()
        self.network, self.nbytes = network, nbytes
        self.tensor = torch.zeros(nbytes // 4)
        self.plan = _planned(self.us, left, nbytes)
        hierarchical = COLLECTIVES["hierarchical"](network)
        strategy = strategy_of("ds-sync", network, Options())
        assert isinstance(strategy, Averaging)
        self.strategy: Averaging = strategy
        self.adjusted: Averaging = strategy
        gossip = ExponentialGraph(network.active)
        parameter = torch.nn.Parameter(torch.zeros(nbytes // 4))
        parameter.grad = torch.zeros(nbytes // 4)
        module = torch.nn.Module()
        module.weight = parameter
        self.served = wt.Synchronized(module, torch.optim.SGD([parameter], 0.1), "asp", network=network)
        averager = PeriodicModelAverager(period=LOCAL_STEPS)
        self.rows: dict[str, tuple[int, Callable[[int], None]]] = {
            "gloo all-reduce": (1, lambda _: dist.all_reduce(self.tensor)),
            "hierarchical all-reduce": (1, lambda _: self.us.launch(hierarchical, self.tensor, here=True).wait()),
            "gossip": (gossip.period, lambda step: self._round(gossip, step, "gossip")),
            "parameter servers": (1, lambda _: self.served.step()),
            "post-local SGD": (LOCAL_STEPS, lambda _: averager.average_parameters([parameter])),
            "exact, weft's plan": (1, lambda _: self.us.launch(self.plan, self.tensor, here=True).wait()),
            "ds-sync, not divided": (self.strategy.pattern.period, lambda step: self._ds_sync(self.strategy, step)),
            "ds-sync": (0, lambda step: self._ds_sync(self.adjusted, step)),
        }
        self.books: dict[int, Any] = {}
        self.seconds: list[float] = []
        """of every step of ds-sync, on this rank"""

    def _round(self, pattern: Any, step: int, subject: str, schedule: Any = None) -> None:
        from weft.runtime.grouping import launch_in_group

        which = pattern.round(step)
        own = self.tensor[which.part_of(which.group_of(self.us.transport.rank)).of(len(self.tensor))]
        launch_in_group(self.us, which, schedule, own, f"{subject} of {self.nbytes}").wait()

    def prepare(self) -> None:
        """Rank 0 makes the schedules of all groups."""
        from weft.groups import GroupTimes
        from weft.torch.strategies.playbook import shared_playbook

        times = GroupTimes(self.network, self.nbytes)
        for one in (self.strategy, self.adjusted):
            self.books[id(one)] = shared_playbook(self.us, one.pattern, times)

    def _ds_sync(self, strategy: Any, step: int) -> None:
        book = self.books[id(strategy)]
        begun = time.perf_counter()
        which, rank = strategy.pattern.round(step), self.us.transport.rank
        schedule = book.schedule(which, rank, self.nbytes // which.part_of(which.group_of(rank)).parts)
        self._round(strategy.pattern, step, f"ds-sync {book.digest}", schedule)
        self.seconds.append(time.perf_counter() - begun)

    def row(self, name: str) -> float:
        """The seconds of one row, a step, on the slowest rank."""
        import torch

        period, one = self.rows[name]
        period = period or self.adjusted.pattern.period
        count = -(-ROW // period) * period
        self._dist.barrier()
        begun = time.perf_counter()
        for step in range(count):
            one(step)
        taken = torch.tensor([(time.perf_counter() - begun) / count], dtype=torch.float64)
        self._dist.all_reduce(taken, self._dist.ReduceOp.MAX)
        told(f"{name}: {float(taken):.3f} s a step, {count} steps")
        return float(taken)

    def adjust(self) -> None:
        """Divide by what the steps without dividing took."""
        import torch

        from weft.groups import speeds_of
        from weft.strategies import meetings_of
        from weft.torch.strategies.timing import followed, gathered_seconds, group_seconds

        period = self.strategy.pattern.period
        own = self.seconds[-2 * period :]
        measured = gathered_seconds(own, torch.device("cpu"), None)
        book = self.books[id(self.strategy)]
        self.adjusted = followed(self.strategy, 0, measured, book)
        contention = self.strategy.contention
        assert contention is not None
        seconds = group_seconds(self.strategy.pattern, 0, measured)
        meetings = meetings_of(self.strategy.pattern, 0, seconds, book.expected_of)
        self.speeds = speeds_of(contention.racks, meetings)
        told(f"{self.speeds}: {self.adjusted.contention}")
        self.prepare()


def _planned(us: Any, network: Network, nbytes: int) -> Any:
    """Of the plans that are predicted to be fastest, the one that is."""
    from weft.planning import shortlist
    from weft.runtime.choosing import tried
    from weft.runtime.costs import measured_costs
    from weft.torch import Choice

    costs = measured_costs(us, None, network)
    text = us.from_rank_0(
        lambda: Choice.of(shortlist(network, nbytes, 3, seconds=PLANNING_SECONDS, costs=costs)).to_text(), 120.0
    )
    plans: list[Any] = [way for _, way in Choice.parse(text).ways]
    return tried(us, plans, None, 20.0)[0].plan


def told(text: str) -> None:
    """How far it is, on rank 0's standard error."""
    if os.environ["RANK"] == "0":
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def measure(network: Path, left: Path, turns: int, nbytes: int) -> dict[str, Any]:
    """On every rank: all methods in turn."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told("joined")
    methods = Methods(Network.load(network), Network.load(left), nbytes)
    told(f"planned: {methods.plan.collective}")
    methods.prepare()
    for _ in range(3):
        methods.row("ds-sync, not divided")  # the first one connects and agrees
    methods.adjust()
    for name in methods.rows:
        methods.row(name)
    times: dict[str, list[float]] = {name: [] for name in methods.rows}
    for _ in range(turns):
        for name, taken in times.items():
            taken.append(methods.row(name))
    slow, speeds = str(methods.adjusted.contention), methods.speeds
    period = methods.adjusted.pattern.period
    methods.served.finish()
    dist.barrier()
    dist.destroy_process_group()
    parts = {"workers": dict(speeds.workers), "uplinks": dict(speeds.uplinks)}
    return {"slow": slow, "speeds": parts, "period": period, "plan": methods.plan.collective, "times": times}


def emulated(scenario: GroupScenario, turns: int, nbytes: int) -> dict[str, Any]:
    """One scenario: medians, and ratios to gloo's all-reduce."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.yaml" for name in ("whole", "workers", "left")}
        for name, path in paths.items():
            getattr(scenario, name).save(path)
        known = [str(paths["workers"]), str(paths["left"]), str(turns), str(nbytes)]
        worker = [sys.executable, "-m", "benchmarks.groups", "--worker", *known]
        command = [sys.executable, "-m", "weft", "emulate", str(paths["whole"]), *scenario.background, "--", *worker]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found = json.loads(done.stdout)
    seconds = {name: median(taken) for name, taken in found["times"].items()}
    gloo = seconds["gloo all-reduce"]
    return {
        "scenario": scenario.name, "about": scenario.about, "bytes": nbytes, "turns": turns,
        "seconds": {name: round(taken, 4) for name, taken in seconds.items()},
        "faster_than_gloo": {name: round(gloo / taken, 3) for name, taken in seconds.items()},
        "ds_sync_target": TARGETS[scenario.name], "ds_sync_found_slow": found["slow"],
        "ds_sync_speeds": found["speeds"], "ds_sync_period": found["period"], "plan": found["plan"],
        "turn_seconds": {name: [round(x, 4) for x in taken] for name, taken in found["times"].items()},
    }  # fmt: skip


def main() -> None:
    known = group_scenarios()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", default=list(known), metavar="NAME")
    parser.add_argument("--worker", action="store_true", help="be one of the workers")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--bytes", type=int, default=NBYTES)
    parser.add_argument("--no-publish", action="store_true", help="print alone")
    args = parser.parse_args()
    if args.worker:
        network, left, turns, nbytes = args.scenarios
        found = measure(Path(network), Path(left), int(turns), int(nbytes))
        if os.environ["RANK"] == "0":
            print(json.dumps(found))
        return
    rows = []
    for name in args.scenarios:
        rows.append(emulated(known[name], args.turns, args.bytes))
        print(json.dumps(rows[-1]), flush=True)
        if not args.no_publish:
            publish_rows("groups", rows, ("scenario",))


if __name__ == "__main__":
    main()
