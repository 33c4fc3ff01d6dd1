"""All-reduces of VGG-16's 14.7 M gradients at 1% on emulated networks: SparDL, its rivals, and what DDP's users can switch on.

Run with ``make bench`` on an otherwise idle machine that can emulate networks, or ``python -m benchmarks.sparse 8x400`` for one
case: so many workers, and 1000 for links of 1 Gbit/s at one switch or 400 for two racks of hosts at 400 Mbit/s behind uplinks of
400 Mbit/s (4:1 with eight). All ways take turns within one run. A time is that of the slowest worker, with selecting and
everything else that is computed; beside it is what a worker computed and what it waited for messages, in the mean. With more
workers than processors, waiting is also waiting for others that compute.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.publishing import publish_rows
from benchmarks.scenarios import MBIT, without
from weft.network import Network, two_tier

if TYPE_CHECKING:
    import torch

NAME = "sparse-speed"
DENSITY, TURNS = 0.01, 6
COMMON, STRETCH, SHIFT = 0.5, 40_000, 97
"""The part of gradients' variance that all workers share, elements of one strength, and how far a call's numbers are moved."""
DENSE, OURS = "gloo dense", "spardl"
SWITCHED_ON = ("fp16 hook", "PowerSGD 2", "PowerSGD 4")
CASES = [f"{workers}x{rate}" for workers in (5, 6, 7, 8) for rate in (1000, 400)]


def network_of(workers: int, rate: int) -> Network:
    """One switch at 1 Gbit/s; two racks at 400 Mbit/s, from which workers are taken in turn."""
    if rate == 1000:
        return two_tier(1, workers, rate * MBIT)
    racks = two_tier(2, 4, rate * MBIT, uplink=rate * MBIT)
    names = [racks.workers[i] for i in (7, 3, 6)]
    return without(racks, *names[: 8 - workers])


class Gradients:
    """Random ones, as in ``weft.reproductions.spardl``: a common and an own part, and a strength for every stretch."""

    def __init__(self, elements: int, rank: int) -> None:
        import torch

        draw = torch.Generator().manual_seed(1)
        self._strength = (
            torch.randn(elements // STRETCH + 1, generator=draw).exp().repeat_interleave(STRETCH)[:elements]
        )
        self._noise = torch.randn(elements + 4096 * (rank + 2) + 64 * SHIFT, generator=draw)
        self._own = 4096 * (rank + 1)

    def __call__(self, call: int, tensor: torch.Tensor) -> None:
        import torch

        start = SHIFT * (call % 64)
        own, common = self._noise[self._own + start :], self._noise[start:]
        torch.mul(own[: len(tensor)], (1 - COMMON) ** 0.5, out=tensor)
        tensor.add_(common[: len(tensor)], alpha=COMMON**0.5).mul_(self._strength)


class OneBucket:
    """What a hook of DistributedDataParallel sees: all gradients in one bucket."""

    def __init__(self, flat: torch.Tensor, shapes: list[torch.Size]) -> None:
        self._flat, at = flat, 0
        self._parts = []
        for shape in shapes:
            self._parts.append(flat[at : at + shape.numel()].view(shape))
            at += shape.numel()

    def buffer(self) -> torch.Tensor:
        return self._flat

    def gradients(self) -> list[torch.Tensor]:
        return self._parts

    def index(self) -> int:
        return 0

    def is_last(self) -> bool:
        return True


def measure(turns: int) -> list[dict[str, Any]]:
    """On every rank."""
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    from weft.sparse import Compression
    from weft.torch.compress_measuring import Work, backend_work, measured_compression, sparse_work
    from weft.training.models.vgg import vgg16
    from weft.training.options import Vgg16

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks = dist.get_world_size()
    shapes = [p.shape for p in vgg16((3, 32, 32), 10, Vgg16()).parameters()]
    flat = torch.empty(sum(shape.numel() for shape in shapes))
    bucket: Any = OneBucket(flat, shapes)

    def hooked(hook: Any, state: Any) -> Work:
        def work(_: torch.Tensor) -> None:
            hook(state, bucket).wait()

        return work

    ways: dict[str, Work] = {DENSE: backend_work(), OURS: sparse_work(Compression(OURS, DENSITY))}
    if ranks % 2 == 0:
        ways["spardl, 2 teams"] = sparse_work(Compression(OURS, DENSITY, teams=2))
    ways["spardl, auto"] = sparse_work(Compression(OURS, DENSITY, teams="auto"))
    rivals = [name for name in ("topk-a", "topk-dsa", "gtopk", "ok-topk") if name != "gtopk" or ranks == 8]
    ways |= {name: sparse_work(Compression(name, DENSITY)) for name in rivals}
    ways["fp16 hook"] = hooked(default_hooks.fp16_compress_hook, None)
    for rank in (2, 4):
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2)
        ways[f"PowerSGD {rank}"] = hooked(powerSGD_hook.powerSGD_hook, state)
    found = measured_compression(ways, flat, Gradients(len(flat), dist.get_rank()), turns)
    dist.barrier()
    dist.destroy_process_group()
    return [asdict(one) for one in found]


def case_of(name: str) -> tuple[int, int]:
    workers, rate = map(int, name.split("x"))
    return workers, rate


def emulated(workers: int, rate: int, turns: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.yaml"
        network_of(workers, rate).save(path)
        worker = [sys.executable, "-m", "benchmarks.sparse", f"{workers}x{rate}", "--turns", str(turns), "--worker"]
        command = [sys.executable, "-m", "weft", "emulate", str(path), "--", *worker]
        found: list[dict[str, Any]] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return found


def row_of(case: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """Times of one case, and what they say about SparDL."""
    times = {one["name"]: one["seconds"] for one in found}
    ours = min(seconds for name, seconds in times.items() if name.startswith(OURS))
    rivals = {n: t for n, t in times.items() if n != DENSE and n not in SWITCHED_ON and not n.startswith(OURS)}
    return {
        "case": case,
        "ways": [{key: _rounded(value) for key, value in one.items()} for one in found],
        "faster_than_dense": round(times[DENSE] / times[OURS], 2),
        "faster_than_rivals": {name: round(seconds / times[OURS], 2) for name, seconds in rivals.items()},
        "best_of_ours_seconds": round(ours, 4),
        "best_of_ours_faster_than_rivals": {name: round(seconds / ours, 2) for name, seconds in rivals.items()},
        "faster_than_ddp_hooks": {name: round(times[name] / times[OURS], 2) for name in SWITCHED_ON},
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 5)
    return [round(one, 5) for one in value] if isinstance(value, list) else value


def told(row: dict[str, Any]) -> str:
    lines = [f"{row['case']}: {row['faster_than_dense']}x as fast as dense, than rivals {row['faster_than_rivals']}"]
    for way in row["ways"]:
        parts = [way["seconds"], way["selecting_seconds"], way["wire_seconds"]]
        times = " ".join(f"{'' if part is None else f'{1e3 * part:.0f} ms':>9}" for part in parts)
        sent = "" if way["bytes_sent"] is None else f"{way['bytes_sent'] / 1e6:8.3f} MB"
        lines.append(f"  {way['name']:18} {times} {sent}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=CASES, metavar="WORKERSxMBIT", help=f"of {', '.join(CASES)}")
    parser.add_argument("--turns", type=int, default=TURNS, help="that count")
    parser.add_argument("--dry", action="store_true", help="print, and write no file")
    parser.add_argument("--worker", action="store_true", help="be one of the workers")
    args = parser.parse_args()
    if args.worker:
        found = measure(args.turns)
        if os.environ["RANK"] == "0":
            print(json.dumps(found))
        return
    rows = []
    for case in args.cases:
        rows.append(row_of(case, emulated(*case_of(case), args.turns)))
        print(told(rows[-1]), flush=True)
        if not args.dry:
            publish_rows(NAME, rows, ("case",), density=DENSITY)


if __name__ == "__main__":
    main()
