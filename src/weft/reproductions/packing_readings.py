"""What the tree-packing paper leaves open, read in other ways: what would come out of Figures 4 and 5 then.

Which links do GPUs share between machines? What do baselines do with idle workers? How are the eight GPUs of a machine joined?
The paper's numbers fit one answer to the first alone, and ``shared_link_readings`` shows it by a bound: with the others no
packing is faster than the best baseline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.collectives import parameter_server
from weft.packing.pack import pack
from weft.planning.candidates import busiest_link
from weft.reproductions.findings import Progress, silent
from weft.reproductions.gpu_networks import Between, first_of_each, gpu_mesh, shared_links, with_active
from weft.reproductions.packing import BASELINES, GBITS, NBYTES, PATIENCE, Row, packed
from weft.simulation import simulate

READINGS: tuple[Between, ...] = ("GPU pair", "machine pair", "machine")
SETTINGS = ((4, 4), (4, 4, 4, 4), (8, 8), (2, 1, 1, 0), (1, 1, 0, 0))
"""active GPUs of each machine; two machines with 4 and 8 GPUs, four with 4"""


@dataclass(frozen=True, slots=True)
class Reading:
    """How the best baseline compares with ours in one setting, by Gbit/s between machines."""

    between: str
    """what has a link of its own between machines"""
    active: tuple[int, ...]
    ratios: dict[int, float]
    most: dict[int, float]
    """no packing of trees makes the ratios larger"""
    unpipelined: dict[int, float]
    """the ratios if no baseline is pipelined: what Blink and PLink do inside and between machines takes turns"""
    over_server: float
    """the parameter server over ours, at the largest rate"""


def shared_link_readings(progress: Progress = silent) -> list[Reading]:
    """Every reading of what the links between machines are."""
    settings = [(between, active) for between in READINGS for active in SETTINGS]
    found: list[Reading] = []
    for between, active in settings:
        progress(len(found), len(settings))
        found.append(_reading(between, active))
    return found


def _reading(between: Between, active: tuple[int, ...]) -> Reading:
    gpus = 8 if max(active) > 4 else 4
    ratios: dict[int, float] = {}
    most: dict[int, float] = {}
    unpipelined: dict[int, float] = {}
    over_server = 0.0
    for gbit in GBITS:
        network = with_active(shared_links(len(active), gpus, gbit, between), first_of_each(active))
        packing = pack(network, seconds=PATIENCE) if network.switches else packed(network, "pipelined")
        schedules = [collective(network) for collective in BASELINES.values()]
        best = min(busiest_link(schedule, network, NBYTES) for schedule in schedules)
        ours = packing.value * NBYTES
        ratios[gbit], most[gbit] = best / ours, float(best / (packing.bound * NBYTES))
        unpipelined[gbit] = min(simulate(schedule, network, NBYTES).seconds for schedule in schedules) / ours
        over_server = busiest_link(parameter_server(network), network, NBYTES) / ours
    return Reading(between, active, ratios, most, unpipelined, over_server)


def idle_readings(rows: list[Row]) -> dict[str, float]:
    """The ratios of Figure 5 at the slowest links, if idle workers took part in the baselines with nothing to add."""
    gbit = min(GBITS)
    everybody = gpu_mesh(4, 4, gbit)
    best = min(busiest_link(collective(everybody), everybody, NBYTES) for collective in BASELINES.values())
    return {row.name: best / row.pipelined for row in rows if row.gbit == gbit}


def dgx1_readings() -> dict[int, tuple[float, float]]:
    """2x8 with a DGX-1 inside each machine: ratios, if bytes between GPUs without a link are spread, and if they take one way."""
    found: dict[int, tuple[float, float]] = {}
    for gbit in GBITS:
        network = gpu_mesh(2, 8, gbit, dgx1=True)
        ours = pack(network, seconds=PATIENCE).value * NBYTES
        schedules = [collective(network) for collective in BASELINES.values()]
        spread, pinned = (
            min(busiest_link(schedule, taken, NBYTES) for schedule in schedules)
            for taken in (replace(network, routing="split"), network)
        )
        found[gbit] = (spread / ours, pinned / ours)
    return found
