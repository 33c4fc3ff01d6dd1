"""Weft: synchronize gradients in the way that the network at hand does fastest.

    network  = weft.Network.load("cluster.yaml")
    schedule = weft.collectives.ring(network)
    weft.verify(schedule)
    result   = weft.simulate(schedule, network, nbytes=100_000_000)

Names are imported when they are first used, so that ``import weft`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft import collectives as collectives
    from weft.bounds import Bound, bound
    from weft.errors import (
        AgreementError,
        EmulationError,
        ExecutionError,
        InputError,
        NetworkError,
        PeerError,
        ProofError,
        ScheduleError,
        SimulationError,
        WeftError,
    )
    from weft.network import Link, Network, Region
    from weft.planning import Plan, plan
    from weft.proof import Proof, verify
    from weft.schedule import Chunk, Schedule, Transfer
    from weft.simulation import Background, Conditions, Pause, Simulation, Slow, simulate
    from weft.trace import Span, Trace

__version__ = "0.1.0"

_HOMES = {
    "AgreementError": "weft.errors",
    "Background": "weft.simulation",
    "Bound": "weft.bounds",
    "Chunk": "weft.schedule",
    "Conditions": "weft.simulation",
    "EmulationError": "weft.errors",
    "ExecutionError": "weft.errors",
    "InputError": "weft.errors",
    "Link": "weft.network",
    "Network": "weft.network",
    "NetworkError": "weft.errors",
    "Pause": "weft.simulation",
    "PeerError": "weft.errors",
    "Plan": "weft.planning",
    "Proof": "weft.proof",
    "ProofError": "weft.errors",
    "Region": "weft.network",
    "Schedule": "weft.schedule",
    "ScheduleError": "weft.errors",
    "Simulation": "weft.simulation",
    "SimulationError": "weft.errors",
    "Slow": "weft.simulation",
    "Span": "weft.trace",
    "Trace": "weft.trace",
    "Transfer": "weft.schedule",
    "WeftError": "weft.errors",
    "bound": "weft.bounds",
    "collectives": "weft.collectives",
    "plan": "weft.planning",
    "simulate": "weft.simulation",
    "verify": "weft.proof",
}

__all__ = [
    "AgreementError",
    "Background",
    "Bound",
    "Chunk",
    "Conditions",
    "EmulationError",
    "ExecutionError",
    "InputError",
    "Link",
    "Network",
    "NetworkError",
    "Pause",
    "PeerError",
    "Plan",
    "Proof",
    "ProofError",
    "Region",
    "Schedule",
    "ScheduleError",
    "Simulation",
    "SimulationError",
    "Slow",
    "Span",
    "Trace",
    "Transfer",
    "WeftError",
    "bound",
    "collectives",
    "plan",
    "simulate",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    module = import_module(_HOMES[name])
    value = module if name == "collectives" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
