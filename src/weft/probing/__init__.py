"""What can be inferred about a network from streams that were sent through it at once. Pure: somebody else measures."""

from weft.probing.findings import Findings, Pair, findings_of
from weft.probing.investigation import Investigation, Measure, compile_inference, investigate, most_rounds
from weft.probing.rounds import NOBODY, Measured, Round, pairing_rounds

__all__ = [
    "NOBODY",
    "Findings",
    "Investigation",
    "Measure",
    "Measured",
    "Pair",
    "Round",
    "compile_inference",
    "findings_of",
    "investigate",
    "most_rounds",
    "pairing_rounds",
]
