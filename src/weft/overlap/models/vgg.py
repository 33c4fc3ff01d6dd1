"""VGG-16 (Simonyan and Zisserman 2015): nearly all that it learns stands in three matrices at its end."""

from __future__ import annotations

from weft.overlap.models.layers import Image, Layer, convolution, linear

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
CLASSES = 1000


def vgg16(side: int = 224) -> list[Layer]:
    image = Image(3, side, side)
    layers: list[Layer] = []
    for stage, (channels, depth) in enumerate(STAGES):
        for i in range(depth):
            layer, image = convolution(f"features.{stage}.{i}", image, channels, 3, bias=True)
            layers.append(layer)
        image = image.pooled(2, 2)
    sizes = (image.elements, 4096, 4096, CLASSES)
    return layers + [linear(f"classifier.{i}", sizes[i], sizes[i + 1]) for i in range(3)]
