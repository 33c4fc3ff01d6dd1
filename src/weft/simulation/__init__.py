"""The flow-level simulator, and the conditions that disturb it."""

from weft.simulation.conditions import Background, Condition, Conditions, Pause, Slow, rotating_pauses
from weft.simulation.result import Simulation, Step, link_loads
from weft.simulation.simulate import simulate

__all__ = [
    "Background",
    "Condition",
    "Conditions",
    "Pause",
    "Simulation",
    "Slow",
    "Step",
    "link_loads",
    "rotating_pauses",
    "simulate",
]
