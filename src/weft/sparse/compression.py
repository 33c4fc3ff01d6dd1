"""Compression: what is sent of a gradient and how, as one value that all workers share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from weft.errors import InputError
from weft.network import Network
from weft.sparse.dense import dense
from weft.sparse.gathering import Gather, check_gather
from weft.sparse.gtopk import check_power_of_two, gtopk
from weft.sparse.ledger import Residuals, check_residuals
from weft.sparse.number_formats import NumberFormat, check_format
from weft.sparse.ok_topk import ok_topk
from weft.sparse.pairs import Pairs
from weft.sparse.quota import check_density, share
from weft.sparse.rounds import Part
from weft.sparse.spardl import Exchange, check_teams, spardl
from weft.sparse.task import Task
from weft.sparse.teams import AlphaBeta, TeamChoice, alpha_beta, team_choice
from weft.sparse.topk_a import topk_a
from weft.sparse.topk_dsa import topk_dsa

FIRST_DENSITY = 0.25
"""Where a warm-up begins, as in deep gradient compression (Lin et al. 2018)."""


@dataclass(frozen=True, slots=True)
class Compression:
    """A method and its settings.

    ``density`` is the part of the elements that a worker sends, ``teams`` a number or "auto", which needs a network to choose
    for. ``residuals`` says what is kept of what was not sent, see ``ledger``. ``values`` travel as float32, bfloat16 or
    float16. With ``per_layer`` every parameter keeps its own strongest elements. ``warmup`` is the number of calls in which the
    density falls, by a constant factor, from a quarter to what is asked for; ``momentum`` the factor of momentum correction,
    which takes the place of the optimizer's own momentum. ``gather`` is how the rivals gather.
    """

    method: str = "spardl"
    density: float = 0.01
    teams: int | Literal["auto"] = 1
    exchange: Exchange = "auto"
    residuals: Residuals = "global"
    values: NumberFormat = "float32"
    per_layer: bool = False
    warmup: int = 0
    momentum: float = 0.0
    gather: Gather = "doubling"

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", self.method.replace("_", "-"))
        if self.method not in METHODS:
            raise InputError(f"the sparse method {self.method!r} is unknown: use {', '.join(METHODS)}")
        check_density(self.density)
        check_residuals(self.residuals)
        check_format(self.values)
        check_gather(self.gather)
        if self.per_layer and self.method == "ok-topk":
            raise InputError("ok-topk has one threshold for the whole gradient: select on the whole, or use spardl")
        given: object = self.warmup
        if not isinstance(given, int) or given < 0:
            raise InputError(f"a warm-up of {self.warmup} calls is not possible: it must be a whole number, 0 or more")
        if not (math.isfinite(self.momentum) and 0 <= self.momentum < 1):
            raise InputError(f"a momentum of {self.momentum} is not possible: it must be 0 or more and below 1")

    def density_at(self, call: int) -> float:
        """The density of a call, from 0 on."""
        if call >= self.warmup or self.density >= FIRST_DENSITY:
            return self.density
        return float(FIRST_DENSITY * (self.density / FIRST_DENSITY) ** (call / self.warmup))

    def check_workers(self, workers: int) -> None:
        """Refuse what so many workers cannot do."""
        if workers < 1:
            raise InputError(f"{workers} workers are not possible: there must be at least 1")
        if self.method == "gtopk":
            check_power_of_two(workers)
        if self.method == "spardl" and self.teams != "auto":
            check_teams(workers, self.teams, self.exchange)

    def for_workers(
        self, workers: int, elements: int, network: Network | None = None, cost: AlphaBeta | None = None
    ) -> tuple[Compression, TeamChoice | None]:
        """The same with a number of teams, and why, if that was open."""
        self.check_workers(workers)
        if self.teams != "auto" or self.method != "spardl":
            return self, None
        if cost is None and network is not None:
            cost = alpha_beta(network)
        if cost is None:
            raise InputError("teams='auto' needs a network to choose for: give one, or a number of teams")
        choice = team_choice(workers, share(elements, self.density), cost)
        return replace(self, teams=choice.teams), choice

    def part(self, task: Task) -> Part[Pairs]:
        """A worker's part."""
        return METHODS[self.method](task, self)

    def __str__(self) -> str:
        details = [f"density {self.density:g}"]
        details += [f"{self.teams} teams"] if self.method == "spardl" and self.teams != 1 else []
        details += [f"{self.exchange} exchange"] if self.exchange != "auto" else []
        details += [f"{self.residuals} residuals"] if self.residuals != "global" else []
        details += [self.values] if self.values != "float32" else []
        details += ["per layer"] if self.per_layer else []
        details += [f"warm-up {self.warmup}"] if self.warmup else []
        details += [f"momentum {self.momentum:g}"] if self.momentum else []
        details += [f"gather {self.gather}"] if self.gather != "doubling" else []
        return f"{self.method} ({', '.join(details)})"


def _spardl(task: Task, compression: Compression) -> Part[Pairs]:
    assert compression.teams != "auto", "teams are chosen before"
    return spardl(task, compression.teams, compression.exchange)


METHODS: dict[str, Callable[[Task, Compression], Part[Pairs]]] = {
    "spardl": _spardl,
    "topk-a": lambda task, compression: topk_a(task, compression.gather),
    "topk-dsa": lambda task, compression: topk_dsa(task, compression.gather),
    "gtopk": lambda task, _: gtopk(task),
    "ok-topk": lambda task, compression: ok_topk(task, compression.gather),
    "dense": lambda task, _: dense(task),
}
