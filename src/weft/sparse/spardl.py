"""SparDL (Zhao et al. 2024): Spar-Reduce-Scatter inside teams, Spar-All-Gather between them, Bruck's all-gather inside.

Teams are workers with neighbouring ranks. Every worker ends with the same pairs, whatever they were rounded to.
"""

from __future__ import annotations

from typing import Literal, get_args

from weft.errors import InputError
from weft.sparse.blocks import Blocks
from weft.sparse.gathering import bruck, bruck_receives
from weft.sparse.pairs import Pairs, joined
from weft.sparse.reduce_scatter import spar_reduce_scatter
from weft.sparse.rounds import Part
from weft.sparse.task import Task
from weft.sparse.team_exchange import Between
from weft.sparse.wire import Message

Exchange = Literal["auto", "recursive", "bruck"]


def check_teams(workers: int, teams: int, exchange: str = "auto") -> None:
    given: object = teams
    if not isinstance(given, int) or given < 1 or workers % given:
        possible = [str(d) for d in range(1, workers + 1) if workers % d == 0]
        raise InputError(f"{workers} workers cannot be {teams} teams of one size: use {', '.join(possible)}")
    if exchange not in get_args(Exchange):
        raise InputError(f"an exchange {exchange!r} between teams is unknown: use {', '.join(get_args(Exchange))}")
    if exchange == "recursive" and teams & (teams - 1):
        raise InputError(f"{teams} teams cannot exchange recursively, only powers of two can: use 'bruck' or 'auto'")


def exchanges_recursively(teams: int, exchange: Exchange = "auto") -> bool:
    """R-SAG where it is possible, unless something else is asked for."""
    return exchange == "recursive" or (exchange == "auto" and not teams & (teams - 1))


def spardl(task: Task, teams: int = 1, exchange: Exchange = "auto") -> Part[Pairs]:
    """The sum of all workers' vectors at its strongest elements, or nearly."""
    check_teams(task.workers, teams, exchange)
    size = task.workers // teams
    team, place = divmod(task.rank, size)
    members = range(team * size, (team + 1) * size)
    blocks = Blocks(task.length, size)
    span, nominal = blocks.span(place), blocks.nominal
    spans = blocks.spans(0, size)
    most = [task.most_bytes([each], task.quota.kept(each, nominal)) for each in spans]
    fellows = range(place, task.workers, size)
    between = Between(task, fellows, team, span, nominal, exchanges_recursively(teams, exchange))
    later = [*between.receives(), *bruck_receives(members, place, most)]
    mine = yield from spar_reduce_scatter(task, members, place, blocks, later)
    if teams > 1:
        mine = yield from between.exchanged(mine, announced=size > 1)
    found: dict[int, Pairs] = {}

    def open_and_settle(other: int, item: Message) -> None:
        (found[other],) = task.opened(item.data, [spans[other]])
        task.ledger.settle(found[other].index, spans[other])

    yield from bruck(members, place, task.message([mine], [span]), most, open_and_settle, announced=True)
    task.is_settled = True
    return joined([found[other] for other in range(size)])
