"""Why our numbers differ from those of the SparDL paper, with the numbers of this run."""

from __future__ import annotations

from collections.abc import Iterator

from weft.reproductions.spardl import (
    COMMON,
    EFFICIENCY,
    LATENCY,
    LONGER_SETTLING,
    MESSAGE,
    MESSAGES,
    SETTLING,
    Count,
    Timing,
)
from weft.reproductions.spardl_training import Accuracy
from weft.units import format_seconds


def spardl_reasons(
    counts: list[Count], models: list[Timing], workers: list[Timing], teams: list[Timing], found: list[Accuracy]
) -> Iterator[str]:
    """One paragraph for each difference, and for each choice."""
    yield _how()
    yield _table_1(counts)
    yield _ratios(models)
    yield _small(models)
    yield _rivals(workers)
    yield _teams(teams)
    yield _training(found)


def _how() -> str:
    return (
        "How the numbers were obtained. All workers run in memory on gradients of the paper's sizes; every message is counted "
        "as it came out, and the flow simulator says when it arrives on machines at one Gigabit switch. Chosen, because the "
        f"paper does not say: a latency of {format_seconds(2 * LATENCY)}, {format_seconds(MESSAGE)} that a message takes at "
        f"least, {EFFICIENCY:.0%} of the link's rate for data, and gradients of which {COMMON:.0%} of the variance is common "
        f"to all workers. Times are those of the call after {SETTLING} ({LONGER_SETTLING} where Ok-Topk's thresholds or B-SAG's "
        "h settle). The numbers of Table 3 are a picture in the source at hand; what the paper's text says stands beside ours."
    )


def _table_1(counts: list[Count]) -> str:
    own = [count for count in counts if count.method.startswith("spardl")]
    return (
        f"Table 1. SparDL's counts agree in {sum(count.agrees for count in own)} of {len(own)} cases, without B-SAG exactly. "
        "The paper's lower limit for B-SAG lacks the first reduce-scatter, which is in its upper limit; here both have it. "
        "TopkDSA and Ok-Topk are compared by their means over workers, and Ok-Topk in a call without exact thresholds; every "
        "32nd call of it gathers magnitudes besides, which the table leaves out. gTopk's root receives in one half of the "
        "rounds and sends in the other: the table counts both."
    )


def _ratios(models: list[Timing]) -> str:
    own = {t.model: t for t in models if t.label == "SparDL"}
    dense = ", ".join(f"{t.model} {t.seconds / own[t.model].seconds:.0f}" for t in models if t.label == "dense")
    return (
        "Table 3. The paper's 1.2 to 3.7 are whole steps, with the GPU's time, which is the same for all; ours are "
        f"communication alone and therefore larger. Against a dense all-reduce the factors are {dense}: an index costs 1.1 "
        "bytes here instead of 4, because gaps are coded, for all methods alike."
    )


def _small(models: list[Timing]) -> str:
    found = {t.label: t for t in models if t.model == "resnet-20"}
    flips = [m for m in MESSAGES if found["TopkA"].by_message[m] < found["Ok-Topk"].by_message[m]]
    said = (
        f"from {format_seconds(min(flips))} a message on" if flips else "for none of the costs of a message tried here"
    )
    return (
        "ResNet-20. The paper finds TopkA faster than Ok-Topk there, because Ok-Topk has many small messages. Here that comes "
        f"out {said}; what a message took on the paper's cluster, with MPI from Python, it does not say."
    )


def _rivals(workers: list[Timing]) -> str:
    def seconds(count: int, label: str) -> float:
        return next(t.seconds for t in workers if (t.workers, t.label) == (count, label))

    parts = ", ".join(
        f"{p} workers {seconds(p, 'Ok-Topk') / seconds(p, 'Ok-Topk, Bruck'):.2f}"
        for p in sorted({t.workers for t in workers})
    )
    return (
        "Rivals and powers of two. The rivals gather by recursive doubling; for other numbers of workers some hand their part "
        "over first and get everything in the end, and that is most of SparDL's lead at 5, 6 and 7. Nothing keeps them from "
        f"gathering as SparDL does, by Bruck's algorithm: then Ok-Topk becomes faster by the factors {parts}. Both are shown. "
        "Which rival is slowest depends on how much workers' selections have in common: TopkDSA's sums are then smaller."
    )


def _teams(teams: list[Timing]) -> str:
    found = {t.label: t for t in teams if t.model == "vgg-16"}
    one, six = found["1 team"], found["6 teams, B-SAG"]
    return (
        "Teams. Two teams by R-SAG send as much as one and save a round. B-SAG sends less, because each team sends only so "
        f"many that their union is what is wanted: six teams {six.nbytes / one.nbytes:.2f} of one team's bytes. How much "
        "depends on how much the teams' selections have in common."
    )


def _training(found: list[Accuracy]) -> str:
    if not found:
        return (
            "Figure 8 and the accuracies of Figures 6 and 7 need training: add --train, which takes ten minutes a seed."
        )
    last = {one.method: one.by_epoch[-1] for one in found}
    return (
        f"Accuracies. The paper trains for 30 to 160 epochs, we for {len(found[0].by_epoch)}, by plain SGD with a rate that "
        f"falls after two thirds, as in the paper. SparDL-gres ends {last['SparDL-gres'] - last['dense']:+.2f} points from "
        "dense: in so short a time, what is left over comes late. A density that falls to 1% in the first epoch (warmup), which "
        "the paper does not have, makes that smaller."
    )
