"""Arguments that several verbs share, and what they stand for."""

from __future__ import annotations

import argparse
import inspect
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import InputError

if TYPE_CHECKING:
    from weft.network import Network
    from weft.schedule import Schedule
    from weft.simulation import Conditions

NETWORK_HELP = (
    "a network file, or a builder with its arguments, such as two_tier:racks=4,workers_per_rack=8,oversubscription=4"
)


def add_network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", metavar="NETWORK", help=NETWORK_HELP)
    parser.add_argument("--active", metavar="W,W,...", help="only these workers take part; the others may relay")
    parser.add_argument(
        "--routing", choices=("pinned", "split"), help="equally short routes: one by a hash, or all evenly"
    )


def add_size(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    parser.add_argument(
        "--size",
        metavar="SIZE",
        required=default is None,
        default=default,
        help="of the tensor, such as 100MB or 64KiB",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def add_conditions(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("conditions (each may be given several times)")
    group.add_argument(
        "--pause",
        action="append",
        default=[],
        metavar="W[@START..END]",
        help="a worker that sends nothing, such as a0@0s..5ms",
    )
    group.add_argument(
        "--background", action="append", default=[], metavar="[Nx]A>B[:SIZE][@START..END]",
        help="flows of somebody else, such as a0>b1, a0>b1:500MB or 4xa0>b1@1s..2s",
    )  # fmt: skip
    group.add_argument(
        "--slow", action="append", default=[], metavar="A>B*FACTOR[@START..END]",
        help="a link with less bandwidth, such as tor-a>core*0.25; 0 stops it",
    )  # fmt: skip
    group.add_argument("--conditions", metavar="FILE", help="a file of conditions (see the documentation)")


def add_simulator(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the simulator")
    group.add_argument(
        "--channel",
        choices=("stream", "blocking", "shared"),
        default="stream",
        help="between two workers: the next transfer when the one before has left (stream) or arrived (blocking), or all at once",
    )
    group.add_argument(
        "--rtt-weights", action="store_true", help="share bandwidth in inverse proportion to latency, as TCP tends to"
    )
    group.add_argument(
        "--add-cost", metavar="TIME", default="0", help="what a worker needs to add one GB, such as 80ms"
    )


def network_of(args: argparse.Namespace) -> Network:
    """The network that the arguments describe."""
    network = read_network(args.network)
    if getattr(args, "active", None):
        network = network.with_active(name.strip() for name in args.active.split(","))
    if getattr(args, "routing", None):
        network = replace(network, routing=args.routing)
    return network


def read_network(text: str) -> Network:
    """A file's network, or a builder's."""
    from weft.network import BUILDERS, Network, built_from_expression

    path = Path(text)
    if path.exists() or path.suffix in (".yaml", ".yml"):
        return Network.load(path)
    if text.partition(":")[0].replace("-", "_") in BUILDERS:
        return built_from_expression(text)
    raise InputError(f"there is no file {text!r}; give a network file or one of the builders {', '.join(BUILDERS)}")


def conditions_of(args: argparse.Namespace) -> Conditions:
    """The conditions that the arguments describe."""
    from weft.simulation import Conditions
    from weft.simulation.conditions_text import conditions_from_file, parse_background, parse_pause, parse_slow

    found = list(conditions_from_file(Path(args.conditions)).conditions) if args.conditions else []
    found += map(parse_pause, args.pause)
    found += map(parse_background, args.background)
    found += map(parse_slow, args.slow)
    return Conditions(found)


def collective_of(name: str, options: list[str], network: Network) -> Schedule:
    """The schedule of a collective by its name, with options such as ``servers=2``."""
    from weft.collectives import COLLECTIVES
    from weft.network.check import closest

    name = name.replace("_", "-")
    if name not in COLLECTIVES:
        raise InputError(
            f"there is no collective {name!r}{closest(name, list(COLLECTIVES))}; there are {', '.join(COLLECTIVES)}"
        )
    known = {x: str(p.annotation) for x, p in inspect.signature(COLLECTIVES[name]).parameters.items() if x != "network"}
    values: dict[str, int | float | str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or key not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InputError(f"{name} has no option {option!r}; {takes}, each as name=value")
        values[key] = _option(name, key, value, known[key])
    return COLLECTIVES[name](network, **values)


def _option(collective: str, key: str, value: str, annotation: str) -> int | float | str:
    """A value in the type that the collective says it takes."""
    if value.lstrip("-").isdecimal():
        return int(value)
    if annotation == "float":
        try:
            return float(value)
        except ValueError:
            raise InputError(f"{collective}: {key} = {value!r} is not a number") from None
    if annotation in ("int", "int | None"):
        raise InputError(f"{collective}: {key} = {value!r} is not a whole number")
    return value
