"""What models demand of their inputs."""

from __future__ import annotations

from weft.errors import InputError


def image(model: str, inputs: tuple[int, ...], least: int) -> tuple[int, int, int]:
    """Channels, height and width, where inputs are images of this size or more."""
    if len(inputs) != 3:
        raise InputError(
            f"model.name: {model} needs images, and an input of these data has the shape {inputs}; "
            "take lstm or transformer for text, or mlp"
        )
    channels, height, width = inputs
    if min(height, width) < least:
        raise InputError(
            f"model.name: {model} needs images of {least} x {least} or more; these have {height} x {width}"
        )
    return channels, height, width


def text(model: str, inputs: tuple[int, ...]) -> int:
    """The length of a sequence, where inputs are sequences of symbols."""
    if len(inputs) != 1:
        raise InputError(
            f"model.name: {model} needs sequences of symbols, such as synthetic-text; "
            f"an input of these data has the shape {inputs}"
        )
    return inputs[0]
