"""What this machine has and lacks for emulation, found by trying."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weft.emulation.outside import start_inside

_TRIALS = {
    "veth": ("ip", "link add v0 type veth peer name v1", "cables"),
    "rules": ("ip", "rule add from 10.77.0.1/32 lookup 1000 priority 1000", "routes that depend on the source"),
    "multipath": (
        "ip",
        "route add 10.77.0.9/32 nexthop via 10.77.0.1 dev v0 onlink nexthop via 10.77.0.1 dev v1 onlink",
        "split routes",
    ),
    "tbf": ("tc", "qdisc replace dev lo root handle 1: tbf rate 1000000bit burst 3000 limit 30000", "rates"),
    "blackhole": ("tc", "qdisc replace dev lo root handle 3: blackhole", "cut links"),
    "netem": ("tc", "qdisc replace dev lo root handle 2: netem delay 1us", "latencies"),
}
_OPTIONAL = {"multipath", "netem", "blackhole", "rules", "namespaces as root", "namespaces without root"}


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a machine has or lacks."""

    name: str
    present: bool
    purpose: str
    needed: bool


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Everything that matters, and whether it suffices."""

    items: tuple[Item, ...]
    congestion_control: str
    congestion_controls: tuple[str, ...]

    @property
    def can_emulate(self) -> bool:
        return all(item.present for item in self.items if item.needed)

    def to_json(self) -> dict[str, Any]:
        return {"can_emulate": self.can_emulate, **asdict(self)}

    def lines(self) -> list[str]:
        """For people, one line for each item."""
        width = max(len(item.name) for item in self.items) + 2
        found = []
        for item in self.items:
            state = "yes" if item.present else "MISSING" if item.needed else "no"
            found.append(f"{item.name:<{width}}{state:<9}{item.purpose}")
        among = ", ".join(self.congestion_controls)
        found.append(f"{'TCP':<{width}}{self.congestion_control:<9}congestion control in use, of {among}")
        found.append("this machine can emulate" if self.can_emulate else "this machine cannot emulate")
        return found


def capabilities() -> Capabilities:
    """What this machine has and lacks."""
    items = [_item("Linux", sys.platform == "linux", "the kernel")]
    tools = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux"}
    items += [_item(tool, shutil.which(tool) is not None, f"of {package}") for tool, package in tools.items()]
    possible = all(item.present for item in items)
    as_root, without = (possible and _can_unshare(user) for user in (False, True))
    items.append(_item("namespaces as root", as_root, "network, mount and process namespaces"))
    items.append(_item("namespaces without root", without, "the same in a user namespace"))
    tried = _tried() if as_root or without else {}
    items.append(_item("namespaces", bool(tried), "for this user"))
    items += [_item(name, tried.get(name, False), purpose) for name, (_, _, purpose) in _TRIALS.items()]
    return Capabilities(tuple(items), _setting("tcp_congestion_control"), _controls())


def _item(name: str, present: bool, purpose: str) -> Item:
    return Item(name, present, purpose, name not in _OPTIONAL)


def _can_unshare(user: bool) -> bool:
    mapped = ["--user", "--map-root-user"] if user else []
    words = ["unshare", *mapped, "--net", "--mount", "--pid", "--fork", "--kill-child", "ip", "link", "set", "lo", "up"]
    return subprocess.run(words, capture_output=True).returncode == 0  # noqa: S603 - our own words


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys/net/ipv4", name).read_text().strip()
    except OSError:
        return "unknown"


def _controls() -> tuple[str, ...]:
    return tuple(_setting("tcp_available_congestion_control").split())


def _tried() -> dict[str, bool]:
    process = start_inside(__name__, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said, _ = process.communicate()
    if process.returncode != 0:
        return {}
    found = json.loads(said)
    assert isinstance(found, dict)
    return found


def main() -> None:
    """Runs inside: try everything in a namespace of its own, and write down what worked."""
    from weft.emulation.build import run_batch
    from weft.emulation.namespaces import inside, mount_processes, new_network
    from weft.errors import EmulationError

    found = {}
    mount_processes()
    with inside(new_network(seed=1)):
        run_batch("ip", ["link set lo up"], "lo")
        for name, (tool, line, _) in _TRIALS.items():
            try:
                run_batch(tool, [line], name)
                if name == "veth":
                    run_batch(tool, ["link set v0 up", "link set v1 up"], name)
                found[name] = True
            except EmulationError:
                found[name] = False
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
