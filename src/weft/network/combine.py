"""Networks made of networks, and builders called with texts, as files and the command line do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from weft.errors import InputError
from weft.network.builders import BUILDERS
from weft.network.check import closest
from weft.network.model import Link, Network, Region
from weft.units import parse_bandwidth, parse_seconds


def combined(
    parts: Mapping[str, Network],
    links: Iterable[Link],
    workers: Iterable[str] = (),
    switches: Iterable[str] = (),
    name: str = "network",
) -> Network:
    """One network of several; the node ``x`` of the part ``p`` is called ``p/x``, and every part is a region.

    ``links`` join the parts with each other and with the workers and switches that are added.
    """
    inner = [prefixed(part, network) for part, network in parts.items()]
    regions = chain.from_iterable(network.regions or () for network in inner)
    wholes = [
        Region(part, network.workers) for part, network in zip(parts, inner, strict=True) if len(network.workers) > 1
    ]
    return Network(
        workers=(*chain.from_iterable(network.workers for network in inner), *workers),
        links=(*chain.from_iterable(network.links for network in inner), *links),
        switches=(*chain.from_iterable(network.switches for network in inner), *switches),
        regions=(*regions, *wholes),
        name=name,
    )


def prefixed(prefix: str, network: Network) -> Network:
    """The same network with every name behind a prefix."""

    def longer(name: str) -> str:
        return f"{prefix}/{name}"

    return Network(
        workers=tuple(map(longer, network.workers)),
        links=tuple(Link(longer(x.source), longer(x.destination), x.bandwidth, x.latency) for x in network.links),
        switches=tuple(map(longer, network.switches)),
        regions=tuple(
            Region(longer(region.name), tuple(map(longer, region.workers))) for region in network.regions or ()
        ),
        inactive=tuple(map(longer, network.inactive)),
        name=network.name,
        routing=network.routing,
    )


def built(builder: str, arguments: Mapping[str, str]) -> Network:
    """The network of a builder whose arguments are texts, such as ``bandwidth: 10Gbit``."""
    builder = builder.replace("-", "_")
    if builder not in BUILDERS:
        raise InputError(
            f"there is no builder {builder!r}{closest(builder, list(BUILDERS))}; there are {', '.join(BUILDERS)}"
        )
    known = inspect.signature(BUILDERS[builder]).parameters
    values: dict[str, object] = {}
    for name, text in arguments.items():
        if name not in known:
            raise InputError(f"{builder} has no {name!r}{closest(name, list(known))}; it takes {', '.join(known)}")
        try:
            values[name] = _reader(name)(text)
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{name} = {text!r} is not a number") from error
    return BUILDERS[builder](**values)


def _reader(name: str) -> Callable[[str], object]:
    if name in ("bandwidth", "uplink", "nic", "pcie", "nvlink"):
        return parse_bandwidth
    if name.endswith("latency"):
        return parse_seconds
    if name == "inside":
        return str
    return float if name == "oversubscription" else int


def built_from_expression(text: str) -> Network:
    """The network of an expression such as ``two_tier:racks=4,workers_per_rack=8,oversubscription=4``."""
    builder, _, rest = text.partition(":")
    arguments: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"{item!r} in {text!r} is not of the form name=value, such as racks=4")
        arguments[name.strip()] = value.strip()
    return built(builder.strip(), arguments)
