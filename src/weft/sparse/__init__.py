"""Sparse synchronization: of every gradient only the strongest elements are sent, and what is left over is sent later.

A worker's part is a generator (``rounds``), which runs in memory, simulated on a network, or for real, by ``weft.torch``.
"""

from weft.sparse.compression import METHODS, Compression
from weft.sparse.costs import Cost, rival_costs, spardl_cost
from weft.sparse.feedback import ErrorFeedback
from weft.sparse.finite import NotFiniteError
from weft.sparse.memory import Conversation, converse
from weft.sparse.pairs import Pairs
from weft.sparse.rounds import Part, Round
from weft.sparse.simulated import SimulatedTimes, simulated
from weft.sparse.teams import AlphaBeta, TeamChoice, alpha_beta, team_choice
from weft.sparse.wire import Message, MessageError

__all__ = [
    "METHODS",
    "AlphaBeta",
    "Compression",
    "Conversation",
    "Cost",
    "ErrorFeedback",
    "Message",
    "MessageError",
    "NotFiniteError",
    "Pairs",
    "Part",
    "Round",
    "SimulatedTimes",
    "TeamChoice",
    "alpha_beta",
    "converse",
    "rival_costs",
    "simulated",
    "spardl_cost",
    "team_choice",
]
