"""Layers: what each has to learn, how many operations it takes and how much it moves; a model is a list of them, in order.

Large convolutions and matrices take as long as their operations. Normalizing, activating, adding and joining take as long as
reading and writing: ``moved`` counts the elements, and what follows a layer without parameters counts as its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """What computes: its floating-point operations and its memory's bytes, each in a second."""

    flops: float
    memory: float = math.inf


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's parameters (name and elements), and what one sample takes in the forward pass: operations, and elements moved."""

    name: str
    parameters: tuple[tuple[str, int], ...]
    flops: float
    moved: float = 0.0

    def seconds(self, device: Device) -> float:
        """The longer of computing and moving, for one sample of four-byte elements."""
        return max(self.flops / device.flops, 4 * self.moved / device.memory)


@dataclass(frozen=True, slots=True)
class Image:
    """What flows through a convolutional network: channels of height times width."""

    channels: int
    height: int
    width: int

    @property
    def elements(self) -> int:
        return self.channels * self.height * self.width

    def pooled(self, kernel: int, stride: int, padding: int = 0) -> Image:
        height, width = (_reduced(side, kernel, stride, padding) for side in (self.height, self.width))
        return Image(self.channels, height, width)


def _reduced(side: int, kernel: int, stride: int, padding: int) -> int:
    return (side + 2 * padding - kernel) // stride + 1


def convolution(
    name: str,
    image: Image,
    channels: int,
    kernel: int | tuple[int, int],
    stride: int = 1,
    padding: bool = True,
    bias: bool = False,
) -> tuple[Layer, Image]:
    """A convolution that keeps the size, up to its stride, if padded."""
    high, wide = (kernel, kernel) if isinstance(kernel, int) else kernel
    height = _reduced(image.height, high, stride, high // 2 if padding else 0)
    width = _reduced(image.width, wide, stride, wide // 2 if padding else 0)
    out = Image(channels, height, width)
    weights = channels * image.channels * high * wide
    parameters = ((f"{name}.weight", weights), (f"{name}.bias", channels))[: 2 if bias else 1]
    return Layer(name, parameters, 2.0 * weights * height * width, image.elements + out.elements), out


def normalization(name: str, image: Image, more_passes: int = 0) -> Layer:
    """Batch normalization, with the activation that follows it: five operations an element.

    It reads its input twice and writes once, the activation reads and writes; ``more_passes`` are those of adding or joining.
    """
    parameters = ((f"{name}.weight", image.channels), (f"{name}.bias", image.channels))
    return Layer(name, parameters, 5.0 * image.elements, (5.0 + more_passes) * image.elements)


def normalized_convolution(
    name: str,
    image: Image,
    channels: int,
    kernel: int | tuple[int, int],
    stride: int = 1,
    padding: bool = True,
    more_passes: int = 0,
) -> tuple[list[Layer], Image]:
    """A convolution without bias, and its normalization."""
    layer, out = convolution(f"{name}.conv", image, channels, kernel, stride, padding)
    return [layer, normalization(f"{name}.norm", out, more_passes)], out


def linear(name: str, features: int, outputs: int, tokens: int = 1, extra_flops: float = 0.0) -> Layer:
    """A matrix and a bias, applied to every token."""
    parameters = ((f"{name}.weight", features * outputs), (f"{name}.bias", outputs))
    return Layer(name, parameters, 2.0 * features * outputs * tokens + extra_flops, (features + outputs) * tokens)
