"""DivideAndShuffle: the pattern of DS-Sync (Wang et al. 2023), with its adjustments, for any racks.

At step t every rack sends a representative, rack[t mod |rack|], to the group between racks; all others of the rack average at
home. So an uplink carries one connection each way, whatever the size of the rack.

Slow ones are kept in groups of two, so that they have the least to send. The representative of a rack with a slow uplink
meets that of one regular rack, another one in every step, while the other regular ones meet in one large group. A worker with a
slow link of its own never represents its rack; at home it is paired with a regular worker, another one in every step.

Between two racks that changes nothing: the pair of their representatives is the smallest group that there can be, and a slow
uplink holds all of them up in every step. So, beyond the paper, an uplink may be ``halved``: groups across it average one half
of every tensor in one step and the other half in the next, and every round lasts two steps, in both of which all other groups
average whole tensors. (Crossing it in every other step would send as much. But TCP gives a connection that has rested a small
share beside one that has not.)

Decided here, because the paper leaves it open:

- A representative that would be alone stays at home for the step. So a single rack is one group, in every step.
- Racks of different size: each takes turns at its own pace, and the pattern repeats after the least common multiple.
- A rack of one always represents itself. In a rack of two, one is away and the other alone. If all racks are such that some
  workers would never hear of each other (two racks of two: a0 b0, then a1 b1), racks of two ``rest`` in every third step, when
  both are at home.
- More slow than regular ones: every regular one is paired with a slow one, the other slow ones with each other.
- In a rack of slow workers alone all take turns, those at home are in pairs, and the rack counts as one with a slow uplink.
- One regular worker among slow ones is away in one step and at home in the next.
- Who meets whom changes in every step; where steps and turns keep in time so that some never meet, only after all turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm

from weft.groups.consensus import check_consensus, check_uplinks, never_meeting
from weft.groups.racks import Rack, racks_of, with_slow
from weft.groups.rounds import Part, Round, in_groups
from weft.network import Network


@dataclass(frozen=True)
class DivideAndShuffle:
    """The groups of every step, from racks; use ``divide_and_shuffle`` to have it checked."""

    racks: tuple[Rack, ...]
    rests: bool = False
    """whether racks of two stay at home in every third step"""
    patient: bool = False
    """whether meetings between racks change only when all turns have been had"""

    @property
    def name(self) -> str:
        return "ds-sync"

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted(rank for rack in self.racks for rank in rack.ranks))

    @cached_property
    def period(self) -> int:
        homes = [len(turns) * self._home_turns(rack) for rack, turns in zip(self.racks, self._turns, strict=True)]
        slow = len(self._held_up)
        between = pairings(slow, len(self.racks) - slow) if len(self.racks) > 1 else 1
        return lcm(*homes, self._stride * between) * (2 if self._halved else 1)

    def round(self, step: int) -> Round:
        half = Part(step % 2, 2)
        if self._halved:
            step //= 2
        away = self._away(step)
        groups = [list(group) for group in away]
        gone = {rank for group in away for rank in group}
        for rack, turns in zip(self.racks, self._turns, strict=True):
            groups += _home(rack, gone, step, len(turns))
        return in_groups(groups, [group for group in away if self._halved.intersection(group)], half)

    def _away(self, step: int) -> list[list[int]]:
        """The groups between racks: only those in which somebody meets somebody."""
        if len(self.racks) == 1:
            return []
        present = [turns[step % len(turns)] for turns in self._turns]
        slow = self._held_up
        quick = [number for number in range(len(self.racks)) if number not in slow]
        met = paired(slow, quick, step // self._stride)
        groups = [[rank for number in group if (rank := present[number]) is not None] for group in met]
        return [group for group in groups if len(group) > 1]

    @cached_property
    def _turns(self) -> tuple[tuple[int | None, ...], ...]:
        """Who represents each rack, by turns; None where all are at home."""
        if len(self.racks) == 1:
            return (self.racks[0].regular if self.racks[0].kept_home else (None,),)
        return tuple(self._turns_of(rack) for rack in self.racks)

    def _turns_of(self, rack: Rack) -> tuple[int | None, ...]:
        lonely = len(rack.regular) == 1 and rack.kept_home
        small = self.rests and len(rack.ranks) == 2 and not rack.kept_home
        return (*rack.regular, None) if lonely or small else rack.regular

    @cached_property
    def _held_up(self) -> list[int]:
        """The racks whose representatives are slow."""
        return [number for number, rack in enumerate(self.racks) if rack.held_up]

    @cached_property
    def _halved(self) -> set[int]:
        """The workers of racks whose uplinks are crossed by halves."""
        return {rank for rack in self.racks if rack.halved for rank in rack.ranks}

    @property
    def _stride(self) -> int:
        return lcm(*(len(turns) for turns in self._turns)) if self.patient else 1

    def _home_turns(self, rack: Rack) -> int:
        """After how many rounds of turns the same workers are paired at home."""
        slow, most = len(rack.kept_home), len(rack.regular)
        present = (most,) if len(self.racks) == 1 else (most - 1, most)
        if rack.all_slow:
            return lcm(*(pairings(count, 0) for count in present))
        return lcm(*(pairings(slow, regular) for regular in present if slow > regular))


def divide_and_shuffle(
    network: Network | Sequence[Rack],
    slow_workers: Sequence[int] = (),
    slow_uplinks: Sequence[int] = (),
    halved: Sequence[int] = (),
) -> DivideAndShuffle:
    """The pattern of a network's racks, adjusted for slow workers (ranks) and slow uplinks (numbers of racks), and checked.

    Of the slow uplinks those of ``halved`` are crossed by half of every tensor in a step.
    """
    racks = racks_of(network) if isinstance(network, Network) else tuple(network)
    if slow_workers or slow_uplinks or isinstance(network, Network):
        racks = with_slow(racks, slow_workers, slow_uplinks, halved)
    plain = DivideAndShuffle(racks)
    ways = (plain, replace(plain, rests=True), replace(plain, patient=True), replace(plain, rests=True, patient=True))
    pattern = next((way for way in ways if not never_meeting(way)), plain)
    check_uplinks(pattern, [rack.ranks for rack in racks])
    check_consensus(pattern)
    return pattern


def paired(slow: Sequence[int], quick: Sequence[int], turn: int) -> list[list[int]]:
    """Each slow one with one other, a quick one if there are enough; the other quick ones together. It changes with the turn."""
    if not slow:
        return [list(quick)]
    if not quick:
        return _tournament(slow, turn)
    if len(slow) <= len(quick):
        partners = [quick[(turn + i) % len(quick)] for i in range(len(slow))]
        pairs = [[one, other] for one, other in zip(slow, partners, strict=True)]
        return [*pairs, [other for other in quick if other not in partners]]
    order = [slow[(turn + i) % len(slow)] for i in range(len(slow))]
    pairs = [[one, other] for one, other in zip(order, quick, strict=False)]
    left = order[len(quick) :]
    return pairs + [left[i : i + 2] for i in range(0, len(left), 2)]


def pairings(slow: int, quick: int) -> int:
    """After how many turns ``paired`` repeats."""
    if slow == 0:
        return 1
    if quick == 0:
        return slow - 1 + slow % 2
    return quick if slow <= quick else slow


def _tournament(ranks: Sequence[int], turn: int) -> list[list[int]]:
    """Pairs such that everybody meets everybody by turns; of an odd number one is alone."""
    players: list[int | None] = [*ranks, None] if len(ranks) % 2 else list(ranks)
    first, others = players[0], players[1:]
    shift = turn % len(others)
    circle = [first, *others[shift:], *others[:shift]]
    pairs = [(circle[i], circle[-1 - i]) for i in range(len(circle) // 2)]
    return [[rank for rank in pair if rank is not None] for pair in pairs]


def _home(rack: Rack, gone: set[int], step: int, turns: int) -> list[list[int]]:
    """The groups of those who are at home. The regular ones stand in the order in which they leave next."""
    if rack.all_slow:
        return paired([rank for rank in rack.ranks if rank not in gone], [], step // turns)
    first = step % len(rack.regular)
    regular = [rank for rank in rack.regular[first + 1 :] + rack.regular[: first + 1] if rank not in gone]
    crowded = len(rack.kept_home) > len(regular)
    return paired(rack.kept_home, regular, step // turns if crowded else 0)
