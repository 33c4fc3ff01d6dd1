"""The cut bound: how fast trees could be packed if routes were free, found without making a single tree.

Let every active worker v be the root of trees that carry a part x(v) of the tensor, all together 1, and let c be the part of
every link that broadcasts may use. Edmonds (1973): trees from these roots fit into c if and only if, for every set S of
nodes with an active worker in it,

    c(links into S)  >=  sum of x(v) over roots outside S.

Reductions are the same with all links reversed, and both share the links. The least time is therefore a linear program with one
variable a worker, one a link, and a row a set. Rows are added when they are violated: a maximum flow from a super-root, joined
to every v by an arc of capacity x(v), to each worker in turn finds them. The program with the rows found so far is a relaxation,
so its value is a bound at any time. The usual way to write the same program, with a flow of its own from the super-root to
every worker, has as many variables as workers times links.

Switches neither copy nor add, so no switch sends more of what is broadcast than it receives. With that, Edmonds' condition
stays sufficient: switches can be split off (Bang-Jensen, Frank and Jackson 1995). Inactive workers may copy and add, and with
them the condition is only necessary.

What the bound claims. It bounds schedules made of reduce and broadcast trees, on whatever routes; those are what a ``Packing``
holds. On direct links with every worker active it is what the best packing reaches. Where every cable is as fast in one
direction as in the other and every worker is active, it equals the bound by counting (``weft.bounds``), which holds for any
schedule. On other networks it may say more than counting, and then it is proved for trees alone. A schedule need not consist of
trees (a butterfly does not), so one that beats it is not excluded; a search through all schedules of up to five workers on
thousands of random prices found none.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import highspy
import numpy as np
from numpy.typing import NDArray

from weft.network import Network
from weft.network.cuts import flows_to, paired_arcs
from weft.network.divisions import group_flows
from weft.network.routes import Graph
from weft.packing.closure import Floats, Ints
from weft.packing.master import Formulation

_VIOLATED = 1e-7
_INERTIA = 0.6
_GAP = 1e-8
_TINY = 1e-12
_NOTHING = np.array([], dtype=np.int32), np.array([])


@dataclass(frozen=True, slots=True)
class CutBound:
    """No packing of trees moves a byte in less than ``seconds_per_byte``."""

    seconds_per_byte: float
    tight: bool
    """whether every cut holds; if not, time ran out, and the bound holds but is not the best"""
    root_parts: Floats
    """what part of the tensor has each active worker as its root, in rank order"""
    cuts: int
    rounds: int


def cut_bound(network: Network, formulation: Formulation = "pipelined", *, seconds: float = 10.0) -> CutBound:
    """The cut bound of a network, the best that is found in the time."""
    if len(network.active) < 2:
        return CutBound(0.0, True, np.ones(len(network.active)), 0, 0)
    deadline = time.monotonic() + seconds
    program = _Program(network, formulation)
    program.add_plain_cuts(network)
    rounds, violated = 0, True
    while violated and program.solve(deadline - time.monotonic()):
        rounds += 1
        violated = program.add_cuts()
    value = program.value / float(network.graph.bandwidth.max())
    return CutBound(value, not violated, program.root_parts, len(program.known), rounds)


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """Trees of one kind in one stage: columns of their roots' parts and of their parts of links; the links' ends."""

    roots: Ints
    links: Ints
    tails: Ints
    heads: Ints


class _Program:
    """Minimise the stages' lengths. Columns: these, and the roots' parts and parts of links of every layer."""

    def __init__(self, network: Network, formulation: Formulation) -> None:
        self.graph = network.graph
        self.active = np.array(network.active, dtype=np.int32)
        self.bandwidth = self.graph.bandwidth / self.graph.bandwidth.max()
        self.value = 0.0
        self.middle = np.zeros(0)
        self.known: set[tuple[int, bytes]] = set()
        self.solver = highspy.Highs()
        self.solver.setOptionValue("output_flag", False)
        self.solver.setOptionValue("threads", 1)
        self.layers = self._layers_of(formulation)
        self.columns = np.zeros(self.solver.getNumCol())
        self._row(self.layers[0].roots, np.ones(len(self.active)), 1.0, 1.0)
        for layer in self.layers:
            self._forward_at_switches(layer, range(len(network.workers), self.graph.nodes))

    def _layers_of(self, formulation: Formulation) -> list[_Layer]:
        """The layers whose cuts are to hold, with rows for what they share."""
        roots = self._new_columns(len(self.active))
        down = self._new_layer(roots, outward=True)
        mirror = mirror_of(self.graph)
        if formulation == "overlapped":
            return self._overlapped(roots, down)
        if formulation == "pipelined":
            # Turned round, a solution on a mirrored network is one too; so is the mean of both.
            up = self._new_layer(roots, outward=False) if mirror is None else replace(down, links=down.links[mirror])
            self._share((up, down), 1.0)
            return [down] if mirror is not None else [down, up]
        if mirror is not None:
            self._share((down,), 2.0)
            return [down]
        up = self._new_layer(roots, outward=False)
        self._share((up,), 1.0)
        self._share((down,), 1.0)
        return [down, up]

    def _overlapped(self, roots: Ints, late: _Layer) -> list[_Layer]:
        """Reductions and early broadcasts in the first half; late broadcasts, whose roots these are not all, in the second."""
        n = len(self.active)
        every = self._new_columns(n)
        early = self._new_layer(self._new_columns(n), outward=True)
        up = self._new_layer(every, outward=False)
        for i in range(n):
            parts = np.array([every[i], roots[i], early.roots[i]])
            self._row(parts, np.array([1.0, -1.0, -1.0]), 0.0, 0.0)
        half = self._share((up, early), 2.0)
        self._share((late,), 0.0, half)
        return [up, early, late]

    def _new_columns(self, count: int, cost: float = 0.0) -> Ints:
        first = self.solver.getNumCol()
        for _ in range(count):
            self.solver.addCol(cost, 0.0, highspy.kHighsInf, 0, *_NOTHING)
        return np.arange(first, first + count, dtype=np.int32)

    def _new_layer(self, roots: Ints, *, outward: bool) -> _Layer:
        ends = (self.graph.source, self.graph.destination)
        return _Layer(roots, self._new_columns(len(self.bandwidth)), *(ends if outward else ends[::-1]))

    def _row(self, columns: Ints, values: Floats, lower: float, upper: float = highspy.kHighsInf) -> None:
        self.solver.addRow(lower, upper, len(columns), columns.astype(np.int32), values)

    def _share(self, layers: tuple[_Layer, ...], cost: float, length: int | None = None) -> int:
        """Rows: on every link, the layers have what it carries in a stage. The column of the stage's length."""
        column = int(self._new_columns(1, cost)[0]) if length is None else length
        for e, rate in enumerate(self.bandwidth.tolist()):
            columns = np.array([*(layer.links[e] for layer in layers), column])
            self._row(columns, np.array([-1.0] * len(layers) + [rate]), 0.0)
        return column

    def _forward_at_switches(self, layer: _Layer, switches: range) -> None:
        """Rows: no switch sends more of what is broadcast than it receives; turned round, none merges what is reduced."""
        for switch in switches:
            enter, leave = np.flatnonzero(layer.heads == switch), np.flatnonzero(layer.tails == switch)
            values = np.repeat([1.0, -1.0], [len(enter), len(leave)])
            self._row(layer.links[np.concatenate([enter, leave])], values, 0.0)

    def solve(self, seconds: float) -> bool:
        """Solve what there is of it; false, and all as it was, if that takes longer."""
        self.costs = np.array(self.solver.getLp().col_cost_)
        # HiGHS counts from when it was made.
        self.solver.setOptionValue("time_limit", self.solver.getRunTime() + max(0.0, seconds))
        self.solver.run()
        status = self.solver.getModelStatus()
        if status == highspy.HighsModelStatus.kTimeLimit:
            return False
        assert status == highspy.HighsModelStatus.kOptimal, self.solver.modelStatusToString(status)
        self.value = self.solver.getInfo().objective_function_value
        self.columns = np.array(self.solver.getSolution().col_value)
        return True

    @property
    def root_parts(self) -> Floats:
        found: Floats = self.columns[self.layers[0].roots]
        return found

    def add_cuts(self) -> bool:
        """Add rows that the middle of the solutions so far violates, or else the last one; false if it is the best.

        A corner of the program violates many rows of which most say little; a middle violates those that matter.
        """
        self.middle = _INERTIA * self.middle + (1 - _INERTIA) * self.columns if len(self.middle) else self.columns
        violated, added = self._add_violated(self.middle)
        if added:
            return True
        # A middle that violates nothing solves the whole program. It may already be as good as the bound.
        if not violated and self.costs @ self.middle <= self.value * (1 + _GAP):
            self.columns = self.middle
            return False
        self.middle = self.columns
        return self._add_violated(self.columns)[1] > 0

    def _add_violated(self, columns: Floats) -> tuple[int, int]:
        """How many cuts are violated, and how many of these rows are new."""
        violated = added = 0
        for at, layer in enumerate(self.layers):
            sides = self._narrow_sides(layer, columns)
            violated += len(sides)
            added += sum(self._add_cut(at, inside) for inside in sides)
        return violated, added

    def _narrow_sides(self, layer: _Layer, columns: Floats) -> NDArray[np.bool_]:
        """The sets of nodes into which less can flow than has its root outside."""
        nodes, parts = self.graph.nodes, np.maximum(columns[layer.roots], 0.0)
        tails = np.concatenate([layer.tails, np.full(len(self.active), nodes)]).astype(np.int32)
        heads = np.concatenate([layer.heads, self.active]).astype(np.int32)
        capacity = np.concatenate([np.maximum(columns[layer.links], 0.0), parts])
        arcs = paired_arcs(nodes + 1, tails, heads, capacity)
        flow, inside = flows_to(*arcs, nodes, self.active, _TINY)
        sides: NDArray[np.bool_] = inside[flow < parts.sum() * (1 - _VIOLATED), :nodes]
        return sides

    def _add_cut(self, at: int, inside: NDArray[np.bool_]) -> bool:
        """Add the row of a set of nodes to a layer, unless it is there already."""
        key = (at, np.packbits(inside).tobytes())
        if key in self.known:
            return False
        self.known.add(key)
        layer = self.layers[at]
        crossing = inside[layer.heads] & ~inside[layer.tails]
        outside = layer.roots[~inside[self.active]]
        columns = np.concatenate([layer.links[crossing], outside])
        self._row(columns, np.repeat([1.0, -1.0], [int(crossing.sum()), len(outside)]), 0.0)
        return True

    def add_plain_cuts(self, network: Network) -> None:
        """The rows of single workers and of regions, and of all but these: most programs end with some of them."""
        tree = network.region_tree
        divisions = [[(rank,) for rank in network.active], *(tree.at_level(level) for level in range(tree.levels))]
        for groups in divisions:
            sides = group_flows(network.graph, groups, inward=True).inside[:, : network.graph.nodes]
            for at in range(len(self.layers)):
                for inside in sides:
                    self._add_cut(at, inside)
                    self._add_cut(at, ~inside)


def mirror_of(graph: Graph) -> Ints | None:
    """The number of every link's other direction, if all have one that is as fast."""
    number = {ends: i for i, ends in enumerate(zip(graph.source.tolist(), graph.destination.tolist(), strict=True))}
    back = [number.get((v, u), -1) for u, v in number]
    if len(number) < len(graph.source) or -1 in back or (graph.bandwidth[back] != graph.bandwidth).any():
        return None
    return np.array(back, dtype=np.int32)
