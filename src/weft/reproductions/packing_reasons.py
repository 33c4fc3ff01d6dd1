"""Why our numbers differ from the tree-packing paper's, and which reading of it they are, with the numbers of this run."""

from __future__ import annotations

from collections.abc import Iterator

from weft.reproductions import packing
from weft.reproductions.packing import PAPER
from weft.reproductions.packing_readings import Reading
from weft.reproductions.packing_summary import Summary


def packing_reasons(
    found: Summary, readings: list[Reading], idle: dict[str, float], dgx1: dict[int, tuple[float, float]]
) -> Iterator[str]:
    """One paragraph for each number, and for each choice."""
    yield _how(found)
    yield _all_active(found)
    yield _partly_active(found, idle)
    yield _overlap(found)
    yield _links(readings)
    yield _eight_gpus(found, dgx1)
    yield _simulated()


def _how(found: Summary) -> str:
    return (
        "How the numbers were obtained. 'ours' is the value of a packing (formulation (3), (8), or overlap with stages "
        f"of any length) times 1.33 GB; each is proved to be within {1 - found.quality:.2%} of the best packing there "
        "is. A baseline is what its busiest link needs for all bytes, so as fast as any order of its transfers can make "
        "it. 'at most' is the best baseline over the bound: nothing that is made of reduce and broadcast trees can do "
        "better in this model. 'simulated' is the best baseline over our forest, both run transfer by transfer, without "
        f"latency and with {packing.LATENCY * 1e6:g} us a link."
    )


def _all_active(found: Summary) -> str:
    low = min(packing.GBITS)
    stated = ", ".join(f"{PAPER[f'all_active_{gbit}']:g}" for gbit in packing.GBITS[:-1])
    ours = ", ".join(f"{found.largest[gbit][0]:.2f}" for gbit in packing.GBITS[:-1])
    means = ", ".join(f"{found.mean[gbit]:.2f}" for gbit in packing.GBITS[:-1])
    least, where = found.least_possible[low]
    return (
        f"All workers active. The paper's {stated} are read as the largest of its sizes, because its introduction says "
        f"'up to 2.9'; ours are {ours}, and the means of six sizes {means}. They cannot hold in every size: with more "
        f"machines the links between them are enough for the parameter server too, and at {where} no trees are more than "
        f"{least:.2f} times faster."
    )


def _partly_active(found: Summary, idle: dict[str, float]) -> str:
    return (
        f"Some workers active. The paper does not say which distributions it shows. {found.nearest[1]} comes out at "
        f"{found.nearest[0]:.2f}, its 18.3; with fewer workers the ratio is larger, up to {found.partly[0]:.1f} "
        f"({found.partly[1]}). Most of it is what idle GPUs relay: baselines leave them out, as the paper has it. If "
        "idle GPUs took part in the baselines with nothing to add, the largest ratio at 10 Gbit/s would be "
        f"{max(idle.values()):.2f}, and 18.3 could not come out."
    )


def _overlap(found: Summary) -> str:
    return (
        "Overlap. Formulation (8) makes both stages equally long, and all reductions must be done in the first. So it "
        "takes at least twice the time of the best reduce packing. Formulation (3) takes just that where links are as "
        "fast in both directions, which the paper assumes, because the best reduce trees turned round are broadcast "
        "trees with the same roots. Hence (8) as printed can save nothing, and saves "
        f"{max(0.0, found.printed_overlap):.1%} in this run. The paper's 30% come out if the stages may have any length: "
        f"up to {found.overlap[0]:.1%} ({found.overlap[1]}). That is the formulation called pipelined here, and 'ours'."
    )


def _links(readings: list[Reading]) -> str:
    low = min(packing.GBITS)
    shared = [reading for reading in readings if reading.between != "GPU pair"]
    full = [reading for reading in shared if min(reading.active) == max(reading.active)]
    partly = [reading for reading in shared if reading not in full]
    return (
        "Links. Every two GPUs of different machines have a link of their own here. If GPUs shared one link for each "
        "pair of machines, or one for each machine, no trees could make the ratio larger than "
        f"{max(max(r.most.values()) for r in full):.2f} with all workers active, nor than "
        f"{max(r.most[low] for r in partly):.2f} with some at 10 Gbit/s. Baselines whose phases take turns would leave "
        f"up to {max(r.unpipelined[low] for r in full):.2f} at 10 and "
        f"{max(r.unpipelined[max(packing.GBITS)] for r in full):.2f} at 100 Gbit/s, more with faster links, where the "
        f"paper has less. And ours would be {min(r.over_server for r in full):g} or more times faster than PS at 100 "
        "Gbit/s, where the paper finds them equal."
    )


def _eight_gpus(found: Summary, dgx1: dict[int, tuple[float, float]]) -> str:
    spread = ", ".join(f"{dgx1[gbit][0]:.2f}" for gbit in packing.GBITS)
    pinned = ", ".join(f"{dgx1[gbit][1]:.2f}" for gbit in packing.GBITS)
    return (
        "Eight GPUs in a machine are a full mesh in Figure 4, because only then PS and ours are equal at 100 Gbit/s. "
        f"With the links of a DGX-1 inside, 2x8 gives {spread} at 10, 25, 40 and 100 Gbit/s if bytes between GPUs "
        f"without a link are spread over all ways through one other GPU, and {pinned} if they take one. Figure 6 has "
        f"both, with links of 100 Gbit/s everywhere; its smallest ratio here is {found.sixth[0]:.2f}. On the mesh n "
        "active of 64 GPUs give 128/n - 1, so the paper's 1.44 means that at most 52 were active. Our trees are made by "
        "hand there, because the search does not finish with 48 idle GPUs in a DGX-1."
    )


def _simulated() -> str:
    return (
        "Simulated times are longer than a packing's, because a pipeline has to fill: a forest is cut into up to "
        f"{packing.MOST_SEGMENTS} segments, but into no more than keep it below {packing.MOST_TRANSFERS:,} transfers. "
        f"With 32 GPUs that leaves {packing.FEWEST_SEGMENTS} segments, too few: some of these forests come out slower "
        "than PS. With 64 GPUs it leaves fewer still, and these are not simulated, like all settings marked '-'. Of the "
        f"68 distributions of two and more workers, Figure 5 has {len(packing.COUNTS)}, so that this takes minutes; they "
        "were picked after all 68 had been packed at 10 Gbit/s, and the largest ratio of all is among them."
    )
