"""The three scenarios of DS-Sync's Tables III to V as networks that can be emulated: racks of five machines, eight workers.

Links of 400 Mbit/s stand for the paper's 20 Gbit/s, one of them between the racks. The other job is a TCP flow each way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.scenarios import HOST, without
from weft.network import Network, two_tier
from weft.reproductions.ds_sync import SCENARIOS


@dataclass(frozen=True, slots=True)
class GroupScenario:
    """One of them: ``whole`` is emulated, ``workers`` is what the workers know."""

    name: str
    about: str
    whole: Network
    flow: tuple[str, str] | None

    @property
    def workers(self) -> Network:
        """Without the machines that do not train."""
        kept = without(replace(self.whole, inactive=()), *self.whole.inactive)
        return replace(kept, name=f"{self.whole.name}, its workers")

    @property
    def left(self) -> Network:
        """What the other job leaves, if it takes half of every link it uses: what a probe would find."""
        if self.flow is None:
            return self.workers
        one, two = self.flow
        shared = {link.name for pair in ((one, two), (two, one)) for link in self.whole.route(*pair)}
        links = (
            replace(link, bandwidth=link.bandwidth / 2) if link.name in shared else link for link in self.workers.links
        )
        return replace(self.workers, links=tuple(links))

    @property
    def background(self) -> list[str]:
        """The options of weft emulate."""
        if self.flow is None:
            return []
        one, two = self.flow
        return ["--background", f"{one}>{two}", "--background", f"{two}>{one}"]


def group_scenarios() -> dict[str, GroupScenario]:
    found = {}
    for name, scenario in SCENARIOS.items():
        whole = two_tier(2, 5, HOST, uplink=HOST).with_active(scenario.active)
        found[name] = GroupScenario(name, scenario.about, whole, scenario.flow)
    return found
