"""Collectives: functions that make a schedule for a network. ``COLLECTIVES`` has them by name."""

from __future__ import annotations

from collections.abc import Callable

from weft.collectives.blink import blink
from weft.collectives.blueconnect import blueconnect
from weft.collectives.butterfly import butterfly
from weft.collectives.double_binary_tree import double_binary_tree
from weft.collectives.forest import forest
from weft.collectives.halving_doubling import halving_doubling
from weft.collectives.hierarchical import hierarchical
from weft.collectives.knomial import k_nomial
from weft.collectives.parameter_server import parameter_server
from weft.collectives.plink import plink
from weft.collectives.rat import rat
from weft.collectives.ring import ring, ring_ordered
from weft.schedule import Schedule

COLLECTIVES: dict[str, Callable[..., Schedule]] = {
    "parameter-server": parameter_server,
    "ring": ring,
    "ring-ordered": ring_ordered,
    "double-binary-tree": double_binary_tree,
    "halving-doubling": halving_doubling,
    "butterfly": butterfly,
    "k-nomial": k_nomial,
    "hierarchical": hierarchical,
    "blueconnect": blueconnect,
    "plink": plink,
    "blink": blink,
    "rat": rat,
    "forest": forest,
}

__all__ = [
    "COLLECTIVES",
    "blink",
    "blueconnect",
    "butterfly",
    "double_binary_tree",
    "forest",
    "halving_doubling",
    "hierarchical",
    "k_nomial",
    "parameter_server",
    "plink",
    "rat",
    "ring",
    "ring_ordered",
]
