"""Write all cases to one JSON file that a simulator can read without weft: python tests/golden/export.py FILE.json"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden.cases import CASES, NBYTES, Case
from weft import Network, Schedule


def exported(case: Case) -> dict[str, object]:
    """A case as links, routes (lists of link numbers) and transfers."""
    network = case.network()
    schedule = case.schedule(network)
    return {
        "name": case.name,
        "workers": len(network.workers),
        "links": [{"name": x.name, "bandwidth": x.bandwidth, "latency": x.latency} for x in network.links],
        "routes": _routes(network, schedule),
        "transfers": _transfers(schedule),
    }


def _routes(network: Network, schedule: Schedule) -> list[dict[str, object]]:
    numbers = {link: number for number, link in enumerate(network.links)}
    pairs = sorted({(transfer.source, transfer.destination) for transfer in schedule})
    return [
        {
            "source": source,
            "destination": destination,
            "links": [numbers[x] for x in network.route(network.workers[source], network.workers[destination])],
        }
        for source, destination in pairs
    ]


def _transfers(schedule: Schedule) -> list[dict[str, object]]:
    """Every transfer waits for all earlier ones into its source for its chunks: the Data rule, read literally."""
    assert not schedule.exchanges.any(), "an exchange is not one transfer after the other"
    arriving: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    rows: list[dict[str, object]] = []
    for i, (transfer, nbytes) in enumerate(zip(schedule, schedule.transfer_bytes(NBYTES).tolist(), strict=True)):
        assert nbytes == int(nbytes), "SimGrid sends whole bytes"
        chunks = range(transfer.chunk, transfer.chunk + transfer.span)
        rows.append(
            {
                "source": transfer.source,
                "destination": transfer.destination,
                "bytes": int(nbytes),
                "after": sorted({earlier for chunk in chunks for earlier in arriving[transfer.source, chunk]}),
            }
        )
        for chunk in chunks:
            arriving[transfer.destination, chunk].append(i)
    return rows


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: export.py FILE.json")
    Path(sys.argv[1]).write_text(json.dumps([exported(case) for case in CASES]))
