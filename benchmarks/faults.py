"""Every collective while a worker is killed or stopped, or its link is cut or slowed to 1%: who is told what, and when.

``python -m benchmarks.faults`` runs all of them, ``python -m benchmarks.faults ring:kill forest:cut`` some; it needs a machine
that can emulate networks. Four workers in two racks do all-reduces one after the other, each with a deadline, and the fault
comes in the middle of one. Survivors must report within the deadline, name the worker at fault, and end with an exit code other
than 0; no process and no network namespace may be left. This is about correctness: a busy machine makes it slower, not wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.publishing import publish
from weft.collectives import COLLECTIVES
from weft.network import two_tier

ROOT = Path(__file__).parent.parent
MBIT = 1e6 / 8
WORKERS, VICTIM = 4, 2
DEADLINE, SLACK = 4.0, 1.0
"""seconds that an all-reduce may take, and what a busy machine may add to a report"""
GRACE = 10.0
FAULTS = ("kill", "stop", "cut", "slow")
BACKEND = "backend"
"""its own all-reduce: of a message that is slow only its own threads know, so that fault is left out"""
FACTORS = {"cut": 0.0, "slow": 0.01}


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one case."""

    collective: str
    fault: str
    victim: int
    seconds: float | None
    """from the start of the failed all-reduce to the last survivor's report"""
    in_time: bool
    named: bool
    """whether every survivor names the victim"""
    alone: bool
    """whether every survivor names nobody else"""
    culprits: dict[int, list[int]]
    exit_codes: dict[int, int | None]
    emulate_code: int
    left_behind: list[str]
    done: int
    """all-reduces before the fault"""
    started: float
    """seconds until the first all-reduce was done"""
    said: str
    """by one survivor"""

    @property
    def is_good(self) -> bool:
        survivors = [code for rank, code in self.exit_codes.items() if rank != self.victim]
        ended = self.emulate_code != 0 and all(code not in (0, None) for code in survivors)
        return self.in_time and self.named and ended and not self.left_behind and self.done > 0


def network_namespaces() -> Iterator[str]:
    """All that processes are in."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                yield str((process / "ns" / "net").readlink())
            except OSError:
                continue


def processes_with(text: str) -> Iterator[str]:
    """The command lines that have a text."""
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                words = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in words:
                yield words.replace(b"\0", b" ").decode(errors="replace")


def left_behind(folder: Path) -> list[str]:
    """Processes and network namespaces of a run that is over; what is dying has a moment."""
    spaces = {file.read_text() for file in folder.glob("namespace-*")}
    ends = time.monotonic() + 5
    while found := [*processes_with(str(folder)), *(spaces & set(network_namespaces()))]:
        if time.monotonic() > ends:
            return found
        time.sleep(0.1)
    return []


def case(collective: str, fault: str, victim: int, after: float) -> Row:
    """Run one case; links are cut and slowed so many seconds after the start."""
    with tempfile.TemporaryDirectory(prefix="weft-faults-") as name:
        folder = Path(name)
        network = two_tier(2, WORKERS // 2, 80 * MBIT, uplink=80 * MBIT)
        network.save(folder / "network.yaml")
        task = {"collective": collective, "fault": fault, "victim": victim, "deadline": DEADLINE}
        (folder / "task.json").write_text(
            json.dumps(task | {"bytes": 1_000_000, "seconds": after + 20, "begun": time.monotonic()})
        )
        where = network.workers[victim]
        home = next(link for link in network.links if link.source == where)
        slow = ["--slow", f"{home.name}*{FACTORS[fault]}@{after}s.."] if fault in FACTORS else []
        words = f"{sys.executable} -m benchmarks.fault_worker {folder}/task.json {folder}"
        record = f"{words}; code=$?; echo $code > {folder}/code-$RANK; exit $code"
        options = [*slow, "--grace", f"{GRACE}s", "--", "sh", "-c", record]
        command = [sys.executable, "-m", "weft", "emulate", str(folder / "network.yaml"), *options]
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True
        )
        return row_of(collective, fault, victim, folder, done.returncode)


def row_of(collective: str, fault: str, victim: int, folder: Path, code: int) -> Row:
    left = left_behind(folder)
    told = {rank: _json(folder / f"told-{rank}.json") for rank in range(WORKERS)}
    survivors = [told[rank] for rank in range(WORKERS) if rank != victim]
    seconds = [one.get("seconds") for one in survivors]
    late = max((one for one in seconds if one is not None), default=None)
    counted = [int(file.read_text() or 0) for file in folder.glob("done-*")]
    codes = {rank: folder / f"code-{rank}" for rank in range(WORKERS)}
    return Row(
        collective,
        fault,
        victim,
        None if late is None else round(late, 2),
        all(one is not None and one <= DEADLINE + SLACK for one in seconds),
        all(victim in one.get("culprits", ()) for one in survivors),
        all(one.get("culprits") == [victim] for one in survivors),
        {rank: one["culprits"] for rank, one in told.items() if "culprits" in one},
        {rank: int(file.read_text()) if file.exists() else None for rank, file in codes.items()},
        code,
        left,
        min(counted, default=0),
        round(max((float(file.read_text()) for file in folder.glob("started-*")), default=0.0), 1),
        next((one["error"] for one in survivors if one.get("error")), ""),
    )


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def rows_of(cases: list[tuple[str, str]], victim: int) -> Iterator[Row]:
    """All of them; a link fails when workers are surely at work, judged by how long they took to start in the cases before.

    Where that was too early, once more.
    """
    after = 12.0
    for name, fault in cases:
        for _ in range(3):
            row = case(name, fault, victim, after)
            after = 4.0 + 1.3 * row.started if row.started else 2 * after
            if row.done:
                break
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    every = [f"{name}:{fault}" for name in COLLECTIVES for fault in FAULTS]
    every += [f"{BACKEND}:{fault}" for fault in FAULTS if fault != "slow"]
    parser.add_argument("cases", nargs="*", default=every, metavar="COLLECTIVE:FAULT")
    parser.add_argument("--victim", type=int, default=VICTIM, help="rank 0 keeps the store that the others report to")
    parser.add_argument("--no-file", action="store_true", help="only print")
    args = parser.parse_args()
    chosen = [(name, fault) for name, _, fault in (one.partition(":") for one in args.cases)]
    rows = []
    for row in rows_of(chosen, args.victim):
        rows.append(asdict(row) | {"good": row.is_good})
        print(json.dumps(rows[-1]), flush=True)
    if not args.no_file:
        publish("faults", deadline_seconds=DEADLINE, rows=rows)
    sys.exit(0 if all(row["good"] for row in rows) else 1)


if __name__ == "__main__":
    main()
