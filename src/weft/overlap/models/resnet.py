"""Residual networks (He et al. 2016): with bottlenecks for large images, and the small one for 32 x 32 images."""

from __future__ import annotations

from weft.overlap.models.layers import Image, Layer, linear, normalized_convolution

BLOCKS = {50: (3, 4, 6, 3), 152: (3, 8, 36, 3)}
CLASSES = 1000
ADDING = 3
"""The sum with the shortcut reads twice and writes once."""


def resnet(depth: int, side: int = 224) -> list[Layer]:
    """ResNet-50 or -152."""
    layers, image = normalized_convolution("stem", Image(3, side, side), 64, 7, stride=2)
    image = image.pooled(3, 2, 1)
    for stage, blocks in enumerate(BLOCKS[depth]):
        width = 64 << stage
        for block in range(blocks):
            more, image = _bottleneck(f"layer{stage + 1}.{block}", image, width, 2 if stage and not block else 1)
            layers += more
    return [*layers, linear("fc", image.channels, CLASSES)]


def _bottleneck(name: str, image: Image, width: int, stride: int) -> tuple[list[Layer], Image]:
    layers: list[Layer] = []
    inside = image
    for i, (channels, kernel, step) in enumerate(((width, 1, 1), (width, 3, stride), (4 * width, 1, 1))):
        more, inside = normalized_convolution(
            f"{name}.{i}", inside, channels, kernel, step, more_passes=ADDING * (i == 2)
        )
        layers += more
    if image.channels != inside.channels:
        layers += normalized_convolution(f"{name}.shortcut", image, 4 * width, 1, stride)[0]
    return layers, inside


def resnet20(side: int = 32) -> list[Layer]:
    """ResNet-20 for 10 classes; its shortcuts have nothing to learn."""
    layers, image = normalized_convolution("stem", Image(3, side, side), 16, 3)
    for stage in range(3):
        for block in range(3):
            for i in range(2):
                stride = 2 if stage and not block and not i else 1
                more, image = normalized_convolution(
                    f"layer{stage + 1}.{block}.{i}", image, 16 << stage, 3, stride, more_passes=ADDING * i
                )
                layers += more
    return [*layers, linear("fc", image.channels, 10)]
