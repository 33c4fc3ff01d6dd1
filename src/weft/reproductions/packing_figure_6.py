"""Figure 6 of the tree-packing paper: eight machines with eight GPUs, some of them active, all links at 100 Gbit/s.

The packing's search does not get far with some forty idle GPUs that are not alike. But here trees of two kinds are enough, and
how much of each is a small linear program: a root sends to all others directly, or to an idle hub that sends to all others. Where
some pair has no link, somebody who is in the tree already passes the data on. Reductions take the same trees, the other way.

Ours is therefore a packing that is made by hand, proved as a schedule, with a bound on how much better any other could be: on
the mesh by prices (``mesh_bound``; there it is the best there is), on the DGX-1 by counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weft.bounds import bound
from weft.collectives.trees import ABSENT, ROOT, Parents, tree_schedule
from weft.linear import minimised
from weft.network import Network
from weft.planning.candidates import busiest_link
from weft.proof import verify
from weft.reproductions.findings import Progress, silent
from weft.reproductions.gpu_networks import GBIT, gpu_mesh, with_active
from weft.reproductions.packing import BASELINES, NBYTES
from weft.schedule import Schedule

GBITS_EVERYWHERE = 100
MACHINES = 8
CHOSEN = {"2G": (0, 6), "3G": (0, 1, 6), "4H": (0, 1, 6, 7), "6": (0, 1, 2, 3, 4, 5)}
"""The paper's names for which GPUs of a machine are active."""
DISTRIBUTIONS = (("2G",) * 8, ("3G",) * 8, ("4H",) * 8, ("6",) * 8, ("2G", "2G", "3G", "3G", "4H", "4H", "6", "6"))
"""The paper does not say which it shows: here is every choice for all machines, and one of each for two."""

Floats = NDArray[np.float64]
Kind = tuple[bool, int, int]
"""Whether links inside machines are used, the machine of the root, and that of the hub or -1."""
_WHOLE = 1 << 16


@dataclass(frozen=True, slots=True)
class Row:
    """One distribution of active GPUs, in seconds."""

    name: str
    inside: str
    """how the GPUs of a machine are joined: mesh or DGX-1"""
    workers: int
    best: float
    """the best baseline, if bytes between GPUs without a link are spread over all ways through one other GPU"""
    best_pinned: float
    """the same, if they take one such way"""
    ours: float
    bound: float
    """no packing takes less"""

    @property
    def ratio(self) -> float:
        return self.best / self.ours

    @property
    def most(self) -> float:
        return self.best / self.bound


def figure_6(progress: Progress = silent) -> list[Row]:
    """All distributions, with a mesh and with a DGX-1 inside the machines."""
    settings = [(dgx1, names) for dgx1 in (False, True) for names in DISTRIBUTIONS]
    rows: list[Row] = []
    for dgx1, names in settings:
        progress(len(rows), len(settings))
        mesh = gpu_mesh(MACHINES, 8, GBITS_EVERYWHERE, inside=GBITS_EVERYWHERE, dgx1=dgx1)
        rows.append(row_of(names, with_active(mesh, [CHOSEN[name] for name in names]), dgx1))
    return rows


def row_of(names: tuple[str, ...], network: Network, dgx1: bool) -> Row:
    """One distribution."""
    spread = replace(network, routing="split")
    schedules = [collective(network) for collective in BASELINES.values()]
    forest = hub_forest(network)
    verify(forest)
    least = bound(network, NBYTES, latency=False).seconds
    if not dgx1:
        least = max(least, mesh_bound(len(network.active), len(network.inactive)))
    return Row(
        ",".join(names) if len(set(names)) > 1 else f"{names[0]} in all",
        "DGX-1" if dgx1 else "mesh",
        len(network.active),
        min(busiest_link(schedule, spread, NBYTES) for schedule in schedules),
        min(busiest_link(schedule, network, NBYTES) for schedule in schedules),
        busiest_link(forest, network, NBYTES),
        least,
    )


def mesh_bound(active: int, idle: int) -> float:
    """What any packing takes on a mesh of one rate: 2 / (active + 2 idle) of the tensor at the rate of a link.

    Let a link between active workers cost 1, one between an active and an idle worker (n - 1)/n, and one between idle workers
    nothing. A tree without idle workers costs n - 1. In any other, each of the n - 1 active workers that are not the root has a
    link into it, and some link leads from an active to an idle one: n links of at least (n - 1)/n, so again n - 1. Up and down
    that is 2 (n - 1), and all links together are worth n (n - 1) + 2 n k (n - 1)/n a second, at rate 1.
    """
    return 2 / (active + 2 * idle) * NBYTES / (GBITS_EVERYWHERE * GBIT)


def hub_forest(network: Network) -> Schedule:
    """Trees that go out from their root or from an idle hub, in the best proportions by machines of root and hub."""
    kinds: dict[Kind, list[Parents]] = {}
    for kind, tree in _trees(network):
        kinds.setdefault(kind, []).append(tree)
    capacity = network.graph.bandwidth / network.graph.bandwidth.max()
    columns = [_mean_loads(network, trees) for trees in kinds.values()]
    rows = np.column_stack([*columns, -capacity])
    together = np.append(np.ones(len(columns)), 0.0)
    solution = minimised(
        np.append(np.zeros(len(columns)), 1.0),
        np.vstack([rows, together]),
        np.append(np.full(len(rows), -np.inf), 1.0),
        np.append(np.zeros(len(rows)), 1.0),
    )
    parents: list[Parents] = []
    weights: list[float] = []
    for trees, share in zip(kinds.values(), solution.x[:-1].tolist(), strict=True):
        parents += trees
        weights += [share / len(trees)] * len(trees)
    whole = np.rint(np.array(weights) / max(weights) * _WHOLE).astype(np.int64)
    kept = np.flatnonzero(whole)
    return tree_schedule(np.array(parents)[kept], whole[kept], network.active, "forest")


def _trees(network: Network) -> Iterator[tuple[Kind, Parents]]:
    """Trees from every root and hub (the root itself, or an idle worker next to it), with links inside machines or without."""
    machine = np.array([int(name[1:].partition("g")[0]) for name in network.workers])
    everywhere = np.zeros((len(machine), len(machine)), dtype=np.bool_)
    everywhere[network.graph.source, network.graph.destination] = True
    idle = [network.node_numbers[name] for name in network.inactive]
    for joined in (everywhere, everywhere & (machine[:, None] != machine)):
        for root in network.active:
            for hub in (root, *(rank for rank in idle if joined[root, rank])):
                of_hub = int(machine[hub]) if hub != root else -1
                kind = (joined is everywhere, int(machine[root]), of_hub)
                yield from ((kind, parents) for parents in _trees_from(network, joined, root, hub))


def _trees_from(network: Network, joined: NDArray[np.bool_], root: int, hub: int) -> Iterator[Parents]:
    """A tree; or, if there are workers that neither root nor hub reaches, one for everybody who can pass the data on to them."""
    parents = np.full(len(network.workers), ABSENT, dtype=np.int32)
    others = np.array([rank for rank in network.active if rank != root])
    parents[others[joined[root, others]]] = root
    parents[others[joined[hub, others]]] = hub
    parents[hub] = root
    parents[root] = ROOT
    far = others[parents[others] == ABSENT]
    near = [others[(parents[others] >= 0) & joined[others, rank]] for rank in far]
    for turn in range(min((len(passers) for passers in near), default=1)):
        tree = parents.copy()
        for rank, passers in zip(far, near, strict=True):
            tree[rank] = passers[(turn + rank) % len(passers)]
        yield tree


def _mean_loads(network: Network, trees: list[Parents]) -> Floats:
    """How often the data of a tree crosses every link, up and down, as a mean over trees."""
    number = {(link.source, link.destination): i for i, link in enumerate(network.links)}
    loads = np.zeros(len(network.links))
    for parents in trees:
        for child in np.flatnonzero(parents >= 0).tolist():
            ends = network.workers[child], network.workers[parents[child]]
            loads[number[ends]] += 1
            loads[number[ends[::-1]]] += 1
    return loads / len(trees)
