"""Other readings of ASC-WFBP: gradients that come at other times, and a link that carries no more than it can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.overlap import CommunicationModel, Scheduler, asc_wfbp, mg_wfbp, one_bucket, shared_link, step
from weft.reproductions import asc
from weft.reproductions.asc import Row
from weft.reproductions.asc_paper import LINK_RATE, NETWORK, PAPER, A
from weft.reproductions.asc_workloads import Made
from weft.reproductions.findings import Progress, silent

LINK = shared_link(A, 2 * 8 / LINK_RATE)
"""A ring that fills the link when it is alone: what b says, which is 2 / 9.43 Gbit/s."""


@dataclass(frozen=True, slots=True)
class Spread:
    """One way to say when gradients come: seconds of the greedy schedulers, by model."""

    how: str
    mg_wfbp: dict[str, float]
    asc_wfbp: dict[str, float]
    one_bucket: dict[str, float]

    def off(self, name: str, scheduler: str = "asc_wfbp") -> float:
        """How far a scheduler is from Table IV."""
        return float(getattr(self, scheduler)[name] / getattr(PAPER[name], scheduler) - 1)

    def worst(self, scheduler: str = "asc_wfbp") -> float:
        """The same for the model that is farthest."""
        return max(abs(self.off(name, scheduler)) for name in PAPER)


def spreads(
    made: Mapping[str, Made],
    progress: Progress = silent,
    beside: Scheduler = asc_wfbp,
    decided_with: CommunicationModel = NETWORK,
    network: CommunicationModel = NETWORK,
) -> list[Spread]:
    """MG-WFBP, and ``beside`` for ASC-WFBP, for every way to say when gradients come."""
    found: list[Spread] = []
    for how, of in made.items():
        progress(len(found), len(made))
        works = {name: of(name) for name in PAPER}
        times = [
            {name: step(work, scheduler(work, decided_with), network).seconds for name, work in works.items()}
            for scheduler in (mg_wfbp, beside, one_bucket)
        ]
        found.append(Spread(how, *times))
    return found


def link_rows(progress: Progress = silent) -> list[Row]:
    """All schedulers if two at once share the link that one alone fills: only starting is hidden."""
    return asc.rows(progress, LINK.limited(2), LINK)
