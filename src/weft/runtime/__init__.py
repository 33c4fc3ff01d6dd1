"""The runtime: executes schedules on torch. Nothing above this layer imports torch."""

from weft.runtime.communicator import Communicator
from weft.runtime.deadline import Deadlines
from weft.runtime.faulty import Faults, FaultyTransport
from weft.runtime.loopback import LoopbackTransport, loopback
from weft.runtime.process_group import ProcessGroupTransport
from weft.runtime.program import Program, program_of
from weft.runtime.running import Running
from weft.runtime.transport import Board, Pending, Transport, TransportError

__all__ = [
    "Board",
    "Communicator",
    "Deadlines",
    "Faults",
    "FaultyTransport",
    "LoopbackTransport",
    "Pending",
    "ProcessGroupTransport",
    "Program",
    "Running",
    "Transport",
    "TransportError",
    "loopback",
    "program_of",
]
