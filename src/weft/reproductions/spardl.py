"""SparDL (Zhao et al. 2024): Table 1 counted from real messages; Table 3 and Figures 6 and 7 as times on a simulated cluster.

The paper's cluster is six machines on Gigabit Ethernet. Gradients are random, with as much in common among workers as ``COMMON``
says and a strength that differs from layer to layer; what is sent is what the methods really make of them, and of what they have
left over, after some calls. Only communication is simulated: the GPU's time is the same for all methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.network import Network, two_tier
from weft.reproductions.findings import Progress, silent
from weft.sparse import Compression, Conversation, ErrorFeedback, Pairs, converse, rival_costs, simulated, spardl_cost
from weft.sparse.pairs import Values
from weft.sparse.spardl import exchanges_recursively

DENSITY = 0.01
MODELS = {"vgg-16": 14_728_266, "vgg-19": 20_086_692, "resnet-20": 269_722, "lstm": 2_561_052}
"""Table 2."""
RATE, LATENCY, MESSAGE = 1e9 / 8, 25e-6, 100e-6
"""A link of Gigabit Ethernet; its latency, and what a message takes at least: these two the paper does not say."""
MESSAGES = (0.0, 50e-6, 100e-6, 200e-6, 500e-6)
EFFICIENCY = 0.95
COMMON = 0.5
"""The part of a gradient's variance that all workers share."""
SETTLING, MEASURED = 3, 1
"""Calls until residuals have settled, and calls whose mean is taken after them."""
LONGER_SETTLING = 9
"""The same where something else has to settle, too: Ok-Topk's thresholds, and h of B-SAG."""
STRETCH = 40_000
"""Elements of one strength."""
SHIFT = 4096

TABLE_1_WORKERS = range(2, 18)
PER_BLOCK, BLOCK = 5, 100


@dataclass(frozen=True, slots=True)
class Count:
    """One way to send at so many workers: rounds, and numbers that came to a worker, least and most; counted and by formula."""

    workers: int
    method: str
    teams: int
    rounds: int
    least: int
    most: int
    formula_rounds: float
    formula_least: float
    formula_most: float

    @property
    def agrees(self) -> bool:
        """Equal, or within the limits where the formula has two."""
        return self.rounds <= self.formula_rounds and self.formula_least <= self.least <= self.most <= self.formula_most


@dataclass(frozen=True, slots=True)
class Timing:
    """One method for one model: how long communication takes, and bytes that a worker sends, both as means of calls."""

    model: str
    workers: int
    label: str
    by_message: dict[float, float]
    """seconds by what a message takes at least"""
    nbytes: float
    kept: float
    """elements of the result"""

    @property
    def seconds(self) -> float:
        return self.by_message[MESSAGE]


METHODS: dict[str, Compression] = {
    "dense": Compression("dense"),
    "TopkDSA": Compression("topk-dsa", DENSITY),
    "TopkA": Compression("topk-a", DENSITY),
    "gTopk": Compression("gtopk", DENSITY),
    "Ok-Topk": Compression("ok-topk", DENSITY),
    "SparDL": Compression("spardl", DENSITY, teams=2),
}
RIVALS = ("TopkDSA", "TopkA", "gTopk", "Ok-Topk")
ALONE = Compression("spardl", DENSITY)
"""SparDL without teams: what is left where workers are odd in number."""


def cluster(workers: int) -> Network:
    """Machines at one switch."""
    return two_tier(1, workers, RATE, latency=LATENCY)


def counts(progress: Progress = silent) -> list[Count]:
    """Table 1: SparDL for all numbers of workers and teams, the rivals for powers of two."""
    cases = list(_cases())
    found = []
    for i, (workers, compression) in enumerate(cases):
        progress(i, len(cases))
        found.append(_count(workers, compression))
    return found


def _cases() -> Iterator[tuple[int, Compression]]:
    density = PER_BLOCK / BLOCK
    for workers in TABLE_1_WORKERS:
        for teams in range(1, workers + 1):
            if workers % teams == 0:
                yield workers, Compression("spardl", density, teams=teams)
        if not workers & (workers - 1):
            for method in rival_costs(workers, 1, 1):
                yield workers, Compression(method, density)


def _count(workers: int, compression: Compression) -> Count:
    draw = np.random.default_rng(workers)
    feedbacks = [ErrorFeedback(compression, rank, workers) for rank in range(workers)]
    length, k = BLOCK * workers, PER_BLOCK * workers
    talk: Conversation[Pairs] | None = None
    for _ in range(37 if compression.method == "ok-topk" else 1):  # not a call with exact thresholds
        talk = converse([f.part(draw.standard_normal(length, dtype=np.float32)) for f in feedbacks])
    assert talk is not None
    numbers = [talk.received(worker) for worker in range(workers)]
    rounds = max(talk.messages(worker) for worker in range(workers))
    if compression.method in ("topk-dsa", "ok-topk"):  # their blocks have not exactly equally many
        numbers = [round(sum(numbers) / workers)]
    if compression.method == "gtopk":  # the root receives first and sends then: the table counts both
        rounds, numbers = max(talk.rounds), [2 * max(numbers)]
    assert compression.teams != "auto"
    spardl = compression.method == "spardl"
    cost = spardl_cost(workers, k, compression.teams) if spardl else rival_costs(workers, k, length)[compression.method]
    name = compression.method
    if spardl and compression.teams > 1:
        name = "spardl, R-SAG" if exchanges_recursively(compression.teams) else "spardl, B-SAG"
    return Count(
        workers, name, compression.teams, rounds, min(numbers), max(numbers), cost.rounds, cost.least, cost.most
    )


def by_model(progress: Progress = silent) -> list[Timing]:
    """Table 3 and Figure 6 a to d: all methods on six workers; gTopk has nothing there."""
    names = [name for name in METHODS if name != "gTopk"]
    found: list[Timing] = []
    for model in MODELS:
        progress(len(found), len(MODELS) * len(names))
        found += _timings(model, 6, {name: METHODS[name] for name in names})
    return found


def by_workers(progress: Progress = silent) -> list[Timing]:
    """Figure 6 a, e and f: VGG-16 with four to eight workers; the paper has four to six."""
    found: list[Timing] = []
    counted = (4, 5, 6, 7, 8)
    for i, workers in enumerate(counted):
        progress(i, len(counted))
        wanted = {name: c for name, c in METHODS.items() if name != "gTopk" or not workers & (workers - 1)}
        if workers % 2:
            wanted["SparDL"] = ALONE
        wanted |= {
            "TopkA, Bruck": Compression("topk-a", DENSITY, gather="bruck"),
            "Ok-Topk, Bruck": Compression("ok-topk", DENSITY, gather="bruck"),
        }
        del wanted["dense"]
        found += _timings("vgg-16", workers, wanted)
    return found


def by_teams(progress: Progress = silent) -> list[Timing]:
    """Figure 7: SparDL in teams, on six workers, for the largest gap between latency and bandwidth that the models offer."""
    ways = {"1 team": ALONE}
    for teams in (2, 3, 6):
        if exchanges_recursively(teams):
            ways[f"{teams} teams, R-SAG"] = Compression("spardl", DENSITY, teams=teams)
        ways[f"{teams} teams, B-SAG"] = Compression("spardl", DENSITY, teams=teams, exchange="bruck")
    found: list[Timing] = []
    for i, model in enumerate(("vgg-16", "resnet-20")):
        progress(i, 2)
        found += _timings(model, 6, ways)
    return found


def _timings(model: str, workers: int, ways: dict[str, Compression]) -> list[Timing]:
    network, source = cluster(workers), Gradients(MODELS[model], workers)
    states: dict[Compression, list[dict[str, Any]]] = {}
    found = []
    for label, compression in ways.items():
        feedbacks = [ErrorFeedback(compression, rank, workers) for rank in range(workers)]
        settling, alike = _settling(compression), replace(compression, gather="doubling")
        if alike in states:  # how it gathers changes nothing in what is left over
            for feedback, state in zip(feedbacks, states[alike], strict=True):
                feedback.load_state_dict(state)
        else:
            for call in range(settling):
                converse([f.part(source.of(rank, call)) for rank, f in enumerate(feedbacks)])
            states[alike] = [f.state_dict() for f in feedbacks]
        found.append(_measured(model, label, feedbacks, source, range(settling, settling + MEASURED), network))
    return found


def _measured(
    model: str, label: str, feedbacks: list[ErrorFeedback], source: Gradients, calls: range, network: Network
) -> Timing:
    seconds, sent, kept = [], [], []
    for call in calls:
        talk = converse([f.part(source.of(rank, call)) for rank, f in enumerate(feedbacks)])
        seconds.append([_seconds(talk, network, message) for message in MESSAGES])
        sent.append(talk.nbytes / len(feedbacks))
        kept.append(len(talk.results[0]))
    means = dict(zip(MESSAGES, np.mean(seconds, axis=0).tolist(), strict=True))
    return Timing(model, len(feedbacks), label, means, float(np.mean(sent)), float(np.mean(kept)))


def _settling(compression: Compression) -> int:
    if compression.method == "dense":
        return 0
    teams = 1 if compression.teams == "auto" else compression.teams
    adapts = compression.method == "ok-topk" or not exchanges_recursively(teams, compression.exchange)
    return LONGER_SETTLING if adapts else SETTLING


def _seconds(talk: Conversation[Pairs], network: Network, message: float) -> float:
    return simulated(talk, network, message_seconds=message, efficiency=EFFICIENCY).seconds


class Gradients:
    """Random gradients: what all workers have in common, and each worker's own; another part of both in every call.

    The memory of a worker's gradient is written over by its next.
    """

    def __init__(self, length: int, workers: int) -> None:
        draw = np.random.default_rng(length)
        strength = np.exp(draw.standard_normal(length // STRETCH + 1, dtype=np.float32))
        self._strength = np.repeat(strength, STRETCH)[:length]
        self._noise = draw.standard_normal(length + SHIFT * (workers + 1), dtype=np.float32)
        self._own = [np.empty(length, np.float32) for _ in range(workers)]
        self._common = np.empty(length, np.float32)
        self._call = -1

    def of(self, rank: int, call: int) -> Values:
        """The gradient of a worker in a call."""
        if call != self._call:
            self._call = call
            self._write(0, COMMON, self._common)
        own = self._own[rank]
        self._write(1 + rank, 1 - COMMON, own)
        own += self._common
        own *= self._strength
        return own

    def _write(self, which: int, variance: float, out: Values) -> None:
        """A shift of the same numbers: far cheaper than new ones, and as unrelated."""
        start = SHIFT * which + 97 * self._call
        np.multiply(self._noise[start : start + len(out)], np.float32(np.sqrt(variance)), out=out)
