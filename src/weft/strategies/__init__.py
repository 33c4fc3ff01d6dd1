"""Strategies: how workers agree around a local step. Descriptions without tensors, for every ground alike."""

from weft.strategies.clock import StepClock
from weft.strategies.driving import Ground, meetings_of, synchronized_update
from weft.strategies.names import STRATEGIES, Options, strategy_of
from weft.strategies.staleness import Arrival, StalenessClock, arrivals
from weft.strategies.strategy import Averaging, Exchange, Serving, Strategy, ensemble_weight

__all__ = [
    "STRATEGIES",
    "Arrival",
    "Averaging",
    "Exchange",
    "Ground",
    "Options",
    "Serving",
    "StalenessClock",
    "StepClock",
    "Strategy",
    "arrivals",
    "ensemble_weight",
    "meetings_of",
    "strategy_of",
    "synchronized_update",
]
