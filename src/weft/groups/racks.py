"""Rack: a region whose workers take turns to represent it, and which of them are slow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from weft.errors import InputError
from weft.network import Network


@dataclass(frozen=True)
class Rack:
    """Workers behind one uplink. ``slow`` are those whose own links are contended; ``slow_uplink`` says it of the uplink.

    ``halved``: the uplink is so slow that only half of the parameters cross it in a step.
    """

    name: str
    ranks: tuple[int, ...]
    slow: tuple[int, ...] = ()
    slow_uplink: bool = False
    halved: bool = False

    def __post_init__(self) -> None:
        if not self.ranks or len(set(self.ranks)) != len(self.ranks):
            raise InputError(f"{self.name!r} has the ranks {self.ranks}: give it at least one, and none twice")
        if not set(self.slow) <= set(self.ranks):
            raise InputError(f"the slow workers {self.slow} of {self.name!r} are not all among its ranks {self.ranks}")

    @cached_property
    def regular(self) -> tuple[int, ...]:
        """The workers that take turns to represent the rack: those that are not slow, or all if every one is."""
        quick = tuple(rank for rank in self.ranks if rank not in self.slow)
        return quick or self.ranks

    @cached_property
    def kept_home(self) -> tuple[int, ...]:
        """The slow workers, which never leave the rack, because it has others."""
        return tuple(rank for rank in self.ranks if rank not in self.regular)

    @property
    def all_slow(self) -> bool:
        return len(self.slow) == len(self.ranks)

    @property
    def held_up(self) -> bool:
        """Whether whoever represents the rack is slow: because its uplink is, or because all of its workers are."""
        return self.slow_uplink or self.all_slow


def racks_of(network: Network) -> tuple[Rack, ...]:
    """The innermost regions of a network; a worker in none is a rack of its own. Without regions, all are one rack."""
    tree = network.region_tree
    if not tree.regions:
        return (Rack("network", network.active),)
    names = {
        frozenset(network.node_numbers[worker] for worker in region.workers) & frozenset(network.active): region.name
        for region in network.regions or ()
    }
    return tuple(
        Rack(names.get(frozenset(ranks), network.workers[ranks[0]]), ranks) for ranks in network.region_tree.leaves()
    )


def with_slow(
    racks: Sequence[Rack], workers: Iterable[int] = (), uplinks: Iterable[int] = (), halved: Iterable[int] = ()
) -> tuple[Rack, ...]:
    """The same racks with these ranks, and the uplinks of these racks, as the slow ones: not more than these.

    Of ``halved`` those count whose uplinks are slow.
    """
    slow, uplink = set(workers), set(uplinks)
    half = uplink.intersection(halved)
    unknown = slow.difference(rank for rack in racks for rank in rack.ranks)
    if unknown:
        raise InputError(f"rank {min(unknown)} cannot be slow: it is in none of the racks")
    if not uplink <= set(range(len(racks))):
        raise InputError(f"there is no rack {max(uplink)}: there are {len(racks)}, counted from 0")
    return tuple(
        replace(
            rack,
            slow=tuple(rank for rank in rack.ranks if rank in slow),
            slow_uplink=number in uplink,
            halved=number in half,
        )
        for number, rack in enumerate(racks)
    )
