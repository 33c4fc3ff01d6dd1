"""Inception-v4 (Szegedy et al. 2017): branches side by side, each a chain of convolutions, joined by channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weft.overlap.models.layers import Image, Layer, linear, normalized_convolution

CLASSES = 1000


class Conv(NamedTuple):
    """One convolution of a branch."""

    channels: int
    kernel: int | tuple[int, int]
    stride: int = 1
    padding: bool = True


Branch = Sequence[Conv | tuple[Conv, Conv]]
"""A chain of convolutions; a pair at its end reads the same and is joined."""

WIDE, TALL = (1, 7), (7, 1)
_PAIR = (Conv(256, (1, 3)), Conv(256, (3, 1)))
STEM: Branch = (Conv(32, 3, 2, False), Conv(32, 3, 1, False), Conv(64, 3))
MIXED_4: Sequence[Branch] = (
    (Conv(64, 1), Conv(96, 3, 1, False)),
    (Conv(64, 1), Conv(64, WIDE), Conv(64, TALL), Conv(96, 3, 1, False)),
)
INCEPTION_A: Sequence[Branch] = (
    (Conv(96, 1),),
    (Conv(64, 1), Conv(96, 3)),
    (Conv(64, 1), Conv(96, 3), Conv(96, 3)),
    (Conv(96, 1),),
)
REDUCTION_A: Sequence[Branch] = (
    (Conv(384, 3, 2, False),),
    (Conv(192, 1), Conv(224, 3), Conv(256, 3, 2, False)),
)
INCEPTION_B: Sequence[Branch] = (
    (Conv(384, 1),),
    (Conv(192, 1), Conv(224, WIDE), Conv(256, TALL)),
    (Conv(192, 1), Conv(192, TALL), Conv(224, WIDE), Conv(224, TALL), Conv(256, WIDE)),
    (Conv(128, 1),),
)
REDUCTION_B: Sequence[Branch] = (
    (Conv(192, 1), Conv(192, 3, 2, False)),
    (Conv(256, 1), Conv(256, WIDE), Conv(320, TALL), Conv(320, 3, 2, False)),
)
INCEPTION_C: Sequence[Branch] = (
    (Conv(256, 1),),
    (Conv(384, 1), _PAIR),
    (Conv(384, 1), Conv(448, (3, 1)), Conv(512, (1, 3)), _PAIR),
    (Conv(256, 1),),
)


def inception_v4(side: int = 299) -> list[Layer]:
    layers, image = _branch("stem", Image(3, side, side), STEM)
    mixes: list[tuple[str, Sequence[Branch], bool]] = [
        ("mixed3", ((Conv(96, 3, 2, False),),), True),
        ("mixed4", MIXED_4, False),
        ("mixed5", ((Conv(192, 3, 2, False),),), True),
        *((f"inceptionA{i}", INCEPTION_A, False) for i in range(4)),
        ("reductionA", REDUCTION_A, True),
        *((f"inceptionB{i}", INCEPTION_B, False) for i in range(7)),
        ("reductionB", REDUCTION_B, True),
        *((f"inceptionC{i}", INCEPTION_C, False) for i in range(3)),
    ]
    for name, branches, pooled in mixes:
        more, image = _mixed(name, image, branches, pooled)
        layers += more
    return [*layers, linear("last_linear", image.channels, CLASSES)]


def _mixed(name: str, image: Image, branches: Sequence[Branch], pooled: bool) -> tuple[list[Layer], Image]:
    """All branches of the same image, joined; where the image shrinks, a pooled copy of it joins them."""
    layers: list[Layer] = []
    outs: list[Image] = []
    for i, branch in enumerate(branches):
        more, out = _branch(f"{name}.{i}", image, branch)
        layers += more
        outs.append(out)
    channels = sum(out.channels for out in outs) + (image.channels if pooled else 0)
    return layers, Image(channels, outs[0].height, outs[0].width)


def _branch(name: str, image: Image, branch: Branch) -> tuple[list[Layer], Image]:
    layers: list[Layer] = []
    for i, step in enumerate(branch):
        outs = []
        for j, conv in enumerate([step] if isinstance(step, Conv) else step):
            more, out = normalized_convolution(f"{name}.{i}.{j}", image, *conv)
            layers += more
            outs.append(out)
        image = Image(sum(out.channels for out in outs), outs[0].height, outs[0].width)
    return layers, image
