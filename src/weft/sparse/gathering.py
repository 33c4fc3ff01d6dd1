"""All-gathers: everybody gets everybody's message. What is passed on is not opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

import numpy as np

from weft.errors import InputError
from weft.sparse.rounds import Part, Round
from weft.sparse.wire import Message, MessageError

Gather = Literal["bruck", "doubling"]
Look = Callable[[int, Message], None]
"""is shown a place and its item"""


def check_gather(name: str) -> None:
    if name not in get_args(Gather):
        raise InputError(f"an all-gather by {name!r} is unknown: use {' or '.join(get_args(Gather))}")


def bruck_receives(ring: Sequence[int], place: int, most: Sequence[int]) -> list[tuple[int, int]]:
    """What Bruck's rounds expect, one each."""
    count, found, gap = len(ring), [], 1
    while gap < count:
        size = min(gap, count - gap)
        found.append((ring[(place + gap) % count], _room(most[(place + gap + i) % count] for i in range(size))))
        gap *= 2
    return found


def bruck(
    ring: Sequence[int],
    place: int,
    item: Message,
    most: Sequence[int],
    look: Look = lambda *_: None,
    announced: bool = False,
) -> Part[list[Message]]:
    """For any number: in round t every place hands what it has, up to 2^t items, to the one 2^t before it.

    ``ring`` has the ranks by place, ``most`` the bytes of the items at most; the result has the items by place. ``look`` is shown
    every item once, as soon as there is time, which is while others are on their way. ``announced``: an earlier round has said
    what these expect.
    """
    count, items, seen = len(ring), [item], 0
    receives = bruck_receives(ring, place, most)
    ahead = [] if announced else receives[1:]

    def show() -> None:
        nonlocal seen
        for number in range(seen, len(items)):
            look((place + number) % count, items[number])
        seen = len(items)

    for source, room in receives:
        gap = len(items)
        size = min(gap, count - gap)
        arrived = yield Round({ring[(place - gap) % count]: together(items[:size])}, {source: room}, show, ahead)
        items += apart(arrived[source], size)
        ahead = []
    show()
    return [items[(other - place) % count] for other in range(count)]


def doubling(ring: Sequence[int], place: int, item: Message, most: Sequence[int]) -> Part[list[Message]]:
    """By exchanges with partners twice as far in every round.

    That is for powers of two. For other numbers the places beyond the last power hand their items over first and get the
    result in the end: two rounds more, and the last carries everything. It is what the codes of the rivals do.
    """
    count = len(ring)
    power = 1 << count.bit_length() - 1
    extra = place + power if place + power < count else place - power if place >= power else None
    has = {place: item}
    if place >= power:
        assert extra is not None
        arrived = yield Round({ring[extra]: together([item])}, {})
        arrived = yield Round({}, {ring[extra]: _room(most[p] for p in range(count) if p != place)})
        has |= dict(zip((p for p in range(count) if p != place), apart(arrived[ring[extra]], count - 1), strict=True))
        return [has[p] for p in range(count)]
    if extra is not None:
        arrived = yield Round({}, {ring[extra]: _room([most[extra]])})
        has[extra] = apart(arrived[ring[extra]], 1)[0]
    partners = [place ^ 1 << t for t in range(power.bit_length() - 1)]
    theirs = [[p for p in range(count) if p % power >> t == partner >> t] for t, partner in enumerate(partners)]
    receives = [(ring[partner], _room(most[p] for p in own)) for partner, own in zip(partners, theirs, strict=True)]
    ahead = receives[1:]
    for (rank, room), own in zip(receives, theirs, strict=True):
        arrived = yield Round({rank: together([has[p] for p in sorted(has)])}, {rank: room}, None, ahead)
        has |= dict(zip(own, apart(arrived[rank], len(own)), strict=True))
        ahead = []
    if extra is not None:
        yield Round({ring[extra]: together([has[p] for p in range(count) if p != extra])}, {})
    return [has[p] for p in range(count)]


GATHERS: dict[str, Callable[[Sequence[int], int, Message, Sequence[int]], Part[list[Message]]]] = {
    "bruck": bruck,
    "doubling": doubling,
}


def together(items: Sequence[Message]) -> Message:
    """Several messages as one: their number, their sizes in bytes and in elements, and they themselves."""
    head = np.array([len(items), *(len(i.data) for i in items), *(i.elements for i in items)], np.uint32)
    parts = [np.frombuffer(head.tobytes(), np.uint8), *(item.data for item in items)]
    return Message(np.concatenate(parts), sum(item.elements for item in items))


def apart(data: np.ndarray, count: int) -> list[Message]:
    """The inverse."""
    at = 4 + 8 * count
    if len(data) < at or int(np.frombuffer(data[:4].tobytes(), np.uint32)[0]) != count:
        raise MessageError(f"a message of {len(data)} bytes does not have the {count} parts that were expected")
    sizes = np.frombuffer(data[4:at].tobytes(), np.uint32).astype(np.int64)
    if at + sizes[:count].sum() != len(data):
        raise MessageError(f"a message has {len(data)} bytes, but its head speaks of another number")
    items = []
    for size, elements in zip(sizes[:count].tolist(), sizes[count:].tolist(), strict=True):
        items.append(Message(data[at : at + size], elements))
        at += size
    return items


def _room(sizes: Iterable[int]) -> int:
    listed = list(sizes)
    return 4 + 8 * len(listed) + sum(listed)
