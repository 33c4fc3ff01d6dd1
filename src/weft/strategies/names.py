"""Strategies by name, made for a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from weft.errors import InputError
from weft.groups import (
    Contention,
    Everybody,
    ExponentialGraph,
    Pattern,
    RandomMatching,
    check_consensus,
    in_parts,
    racks_of,
)
from weft.network import Network
from weft.strategies.composing import refusal
from weft.strategies.strategy import Averaging, Serving, Strategy

ENSEMBLE = 0.99


@dataclass(frozen=True, slots=True)
class Options:
    """What strategies may be told; each takes what concerns it."""

    every: int = 8
    """local-sgd: steps between averages"""
    graph: Literal["exponential", "random"] = "exponential"
    """gossip: with whom"""
    seed: int = 0
    """gossip on a random graph"""
    staleness: int = 3
    """ssp: how many steps a worker may be ahead"""
    servers: int | None = None
    """asp and ssp: how many workers are servers; None: all"""
    ensemble: float | None = None
    """the factor of the exponential average; 0: no ensemble; None: as usual, 0.99 for ds-sync and none for others"""
    parts: int = 1
    """ds-sync and gossip: a step averages one of so many parts of the parameters, in turn"""


def bsp(network: Network, options: Options) -> Strategy:
    """Gradients of all workers, in every step."""
    return Averaging("bsp", "gradients", Everybody(network.active), _factor(options, None))


def ds_sync(network: Network, options: Options) -> Strategy:
    """Parameters within groups that follow the network's racks, and what is slow."""
    contention = Contention(racks_of(network))
    pattern = in_parts(contention.pattern, options.parts)
    return Averaging("ds-sync", "parameters", pattern, _factor(options, ENSEMBLE), contention, options.parts)


def gossip(network: Network, options: Options) -> Strategy:
    """Parameters of one neighbour at a time."""
    ranks = network.active
    pattern: Pattern = (
        ExponentialGraph(ranks) if options.graph == "exponential" else RandomMatching(ranks, options.seed)
    )
    check_consensus(pattern)
    parts = options.parts
    return Averaging("gossip", "parameters", in_parts(pattern, parts), _factor(options, None), parts=parts)


def local_sgd(network: Network, options: Options) -> Strategy:
    """Parameters of all workers, every so many steps."""
    return Averaging("local-sgd", "parameters", Everybody(network.active, options.every), _factor(options, None))


def asp(network: Network, options: Options) -> Strategy:
    """Gradients to parameter servers; nobody waits."""
    return Serving("asp", network.active, None, options.servers)


def ssp(network: Network, options: Options) -> Strategy:
    """Gradients to parameter servers; nobody is too far ahead."""
    return Serving("ssp", network.active, options.staleness, options.servers)


STRATEGIES: dict[str, Callable[[Network, Options], Strategy]] = {
    "bsp": bsp,
    "ds-sync": ds_sync,
    "gossip": gossip,
    "local-sgd": local_sgd,
    "asp": asp,
    "ssp": ssp,
}


def strategy_of(name: str, network: Network, options: Options | None = None) -> Strategy:
    """The strategy of a name, with hyphens or underscores, for a network's active workers."""
    known = name.replace("_", "-")
    if known not in STRATEGIES:
        from weft.network.check import closest

        raise InputError(
            f"there is no strategy {name!r}{closest(known, list(STRATEGIES))}; there are {', '.join(STRATEGIES)}"
        )
    chosen = options or Options()
    problem = refusal(known, parts=chosen.parts)
    if problem is not None:
        raise InputError(problem)
    return STRATEGIES[known](network, chosen)


def _factor(options: Options, usual: float | None) -> float | None:
    chosen = usual if options.ensemble is None else options.ensemble
    return chosen or None
