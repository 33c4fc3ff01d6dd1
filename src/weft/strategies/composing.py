"""What goes together with what: a strategy, a plan, overlap, compression; and why not, where it does not."""

from __future__ import annotations

PARAMETERS = ("ds-sync", "gossip", "local-sgd")
IN_PARTS = ("ds-sync", "gossip")
SERVERS = ("asp", "ssp")
RELAYING = ("forest", "blink", "plink")
"""Collectives whose transfers may pass through workers that take no part."""


def refusal(
    strategy: str, plan: str = "auto", overlap: str = "auto", compress: str = "none", parts: int = 1
) -> str | None:
    """Why these cannot be combined; None where they can. Names are those of the command line."""
    if parts > 1 and strategy not in IN_PARTS:
        return f"{parts} parts with {strategy}: {_WHOLE[strategy]}"
    if compress != "none" and strategy in PARAMETERS:
        return (
            f"{compress} with {strategy}: what is averaged are parameters, of which no part can be left for later or rounded "
            f"without moving the model; {_SMALLER[strategy]}, or compress gradients, with bsp"
        )
    if compress != "none" and strategy in SERVERS:
        return f"{compress} with {strategy}: servers apply whole gradients; compress with bsp"
    if compress not in ("none", "fp16", "bf16") and plan not in ("auto", "backend"):
        return f"{compress} with the plan {plan}: sparse messages have rounds of their own: leave the plan {plan} out"
    if plan.endswith(".json") and strategy not in ("bsp", "local-sgd"):
        return f"a plan file with {strategy}: it is for all workers at once, and groups or servers are not"
    if plan in RELAYING and strategy in PARAMETERS and strategy != "local-sgd":
        return f"{plan} inside the groups of {strategy}: its trees may pass through workers that are in another group"
    if plan not in ("auto", "backend") and strategy in (*SERVERS, "gossip"):
        return (
            f"the plan {plan} with {strategy}: workers send whole tensors to one another, and there is nothing to plan"
        )
    if overlap not in ("auto", "none") and strategy in SERVERS:
        return f"{overlap} with {strategy}: a gradient is pushed when all of it is there"
    if overlap not in ("auto", "none") and strategy in PARAMETERS:
        return f"{overlap} with {strategy}: parameters leave in buckets of one size, as soon as they are updated"
    return None


_WHOLE = {
    "bsp": "of a gradient no part can be left out: what is not averaged is lost; use --compress spardl, which keeps it",
    "local-sgd": "it averages seldom as it is: to send less, average every so many more steps",
    "asp": "servers apply whole gradients",
    "ssp": "servers apply whole gradients",
}
_SMALLER = dict.fromkeys(IN_PARTS, "average them in parts (--parts 4)") | {"local-sgd": "average them less often"}

TRIED: tuple[tuple[str, str, str, str], ...] = (
    ("ds-sync", "auto", "auto", "spardl"),
    ("ds-sync", "forest", "auto", "none"),
    ("gossip", "ring", "auto", "none"),
    ("asp", "auto", "search", "none"),
    ("ssp", "auto", "auto", "fp16"),
)
"""Combinations that people may think of, and that are refused."""
