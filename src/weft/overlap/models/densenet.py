"""DenseNet-201 (Huang et al. 2017): every layer reads what all layers of its block before it have written."""

from __future__ import annotations

from weft.overlap.models.layers import Image, Layer, convolution, linear, normalization, normalized_convolution

BLOCKS = (6, 12, 48, 32)
GROWTH = 32
BOTTLENECK = 4 * GROWTH
CLASSES = 1000
JOINING = 2
"""What was written before is copied side by side: read once, written once."""


def densenet201(side: int = 224) -> list[Layer]:
    layers, image = normalized_convolution("stem", Image(3, side, side), 2 * GROWTH, 7, stride=2)
    image = image.pooled(3, 2, 1)
    for block, depth in enumerate(BLOCKS):
        for i in range(depth):
            more, image = _dense(f"block{block + 1}.{i}", image)
            layers += more
        if block + 1 < len(BLOCKS):
            more, image = _transition(f"transition{block + 1}", image)
            layers += more
    return [*layers, normalization("norm", image), linear("classifier", image.channels, CLASSES)]


def _dense(name: str, image: Image) -> tuple[list[Layer], Image]:
    reduce, inside = convolution(f"{name}.conv1", image, BOTTLENECK, 1)
    grow, grown = convolution(f"{name}.conv2", inside, GROWTH, 3)
    layers = [normalization(f"{name}.norm1", image, JOINING), reduce, normalization(f"{name}.norm2", inside), grow]
    return layers, Image(image.channels + grown.channels, image.height, image.width)


def _transition(name: str, image: Image) -> tuple[list[Layer], Image]:
    halve, out = convolution(f"{name}.conv", image, image.channels // 2, 1)
    return [normalization(f"{name}.norm", image), halve], out.pooled(2, 2)
