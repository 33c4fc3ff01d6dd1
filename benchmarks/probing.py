"""Probes of emulated networks that are drawn at random: whether the regions found are the true ones, and how far rates are off.

Run ``python -m benchmarks.probing 1 2 3`` for the networks of these seeds: up to 16 workers in 2 to 5 racks of different sizes,
up to two slow workers, ranks in rack order or not. Nothing about the network is told but the number of workers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.publishing import publish_rows
from benchmarks.racks import drawn_network, true_regions
from benchmarks.scenarios import MBIT
from weft.network import Network

WEFT = [sys.executable, "-m", "weft"]


def probed(network: Network) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.yaml"
        network.save(path)
        command = [*WEFT, "emulate", str(path), "--", *WEFT, "probe", "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def row_of(seed: int) -> dict[str, Any]:
    network = drawn_network(seed)
    truth = true_regions(network)
    found = probed(network)
    regions = {frozenset(region) for region in found["regions"]}
    rates = {link.source: round(link.bandwidth / MBIT) for link in network.links}
    return {
        "seed": seed,
        "workers": len(network.workers),
        "true_regions": sorted(map(sorted, truth)),
        "worker_mbit": [rates[name] for name in network.workers],
        "uplink_mbit": [rates[name] for name in network.switches if name != "core"],
        "found_regions": sorted(map(sorted, regions)),
        "right": regions == truth,
        "fit_error": round(found["fit_error"], 4),
        "seconds": round(found["seconds"], 1),
        "rounds": found["rounds"],
        "rank_bytes": found["rank_bytes"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int, default=[*range(2101, 2113)], metavar="SEED")
    rows = []
    for seed in parser.parse_args().seeds:
        rows.append(row_of(seed))
        print(json.dumps(rows[-1]), flush=True)
    print(f"{sum(row['right'] for row in rows)} of {len(rows)} right")
    publish_rows("probing", rows, ("seed",))


if __name__ == "__main__":
    main()
