"""Namespaces, cables, routes and rates, made as planned; runs inside."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weft.emulation.big_packets import LEGACY, allow_packets
from weft.emulation.namespaces import inside, mount, mount_processes, new_network, path_of
from weft.emulation.plan import Plan
from weft.errors import EmulationError

Report = Callable[[int, int], None]
"""Told how much is done, and of how much."""


@dataclass(frozen=True, slots=True)
class Built:
    """A plan that stands: its namespaces as open files, and whether the kernel can delay packets."""

    plan: Plan
    networks: tuple[int, ...]
    delays: bool

    def set_rate(self, link: int, factor: float) -> None:
        """Give a link this part of its rate; 0 cuts it."""
        for node, namespace in enumerate(self.plan.namespaces):
            for shape in namespace.shapes:
                if shape.link == link:
                    with inside(self.networks[node]):
                        run_batch("tc", shape.lines(factor, delays=self.delays), namespace.name)


def build(plan: Plan, report: Report) -> Built:
    """Make everything that a plan has, and report how many nodes are done."""
    mount_processes()
    networks = tuple(new_network(node + 1) for node in range(len(plan.namespaces)))
    with inside(networks[0]):
        delays = can_delay()
    run_batch("ip", plan.cable_lines([path_of(network) for network in networks]), "the cables")
    for done, (network, namespace) in enumerate(zip(networks, plan.namespaces, strict=True)):
        report(done, len(networks))
        with inside(network):
            run_batch("ip", namespace.lines, namespace.name)
            for shape in namespace.shapes:
                if shape.packet > LEGACY:
                    allow_packets(shape.device, shape.packet)
            lines = [line for shape in namespace.shapes for line in shape.lines(delays=delays)]
            run_batch("tc", lines, namespace.name)
    _name_hosts(plan)
    report(len(networks), len(networks))
    return Built(plan, networks, delays)


def can_delay() -> bool:
    """Whether this kernel has netem; asked of a namespace in which nothing happens yet."""
    try:
        run_batch("tc", ["qdisc add dev lo root netem delay 1us", "qdisc del dev lo root"], "lo")
    except EmulationError:
        return False
    return True


def run_batch(tool: str, lines: Sequence[str], where: str) -> None:
    """Give ``ip`` or ``tc`` all lines at once; one process instead of hundreds."""
    text = "".join(line + "\n" for line in lines)
    ran = subprocess.run([tool, "-batch", "-"], input=text, capture_output=True, text=True)  # noqa: S603 - ip or tc
    if ran.returncode != 0:
        number = re.search(r"Command failed -:(\d+)", ran.stderr)
        line = f" at {lines[int(number[1]) - 1]!r}" if number else ""
        said = ran.stderr.partition("\n")[0]
        raise EmulationError(f"{where}: {tool} failed{line}: {said}; weft emulate --check says what this machine lacks")


def _name_hosts(plan: Plan) -> None:
    """Let the names of nodes resolve, as far as they can be names of hosts."""
    hosts = Path("/etc/hosts")
    named = [x for x in plan.namespaces if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", x.name)]
    # The second form is what a socket that takes both protocols knows its peer by.
    lines = [f"{x.address} {x.name}\n::ffff:{x.address} {x.name}\n" for x in named]
    with suppress(OSError), tempfile.NamedTemporaryFile("w") as file:
        file.write(hosts.read_text() + "\n" + "".join(lines))
        file.flush()
        Path(file.name).chmod(0o644)
        mount(file.name, str(hosts), bind=True)
