"""Built-in workloads: models computed from their architecture, with times in proportion to floating-point operations."""

from __future__ import annotations

from collections.abc import Callable

from weft.errors import InputError
from weft.overlap.models.bert import bert_base
from weft.overlap.models.densenet import densenet201
from weft.overlap.models.inception import inception_v4
from weft.overlap.models.layers import Device, Layer
from weft.overlap.models.resnet import resnet, resnet20
from weft.overlap.models.vgg import vgg16
from weft.overlap.workload import GradientTensor, Workload

MODELS: dict[str, Callable[[], list[Layer]]] = {
    "resnet-20": resnet20,
    "resnet-50": lambda: resnet(50),
    "resnet-152": lambda: resnet(152),
    "densenet-201": densenet201,
    "inception-v4": inception_v4,
    "vgg-16": vgg16,
    "bert-base": bert_base,
}

BY_FLOPS = Device(1.0)
"""Only operations count."""

__all__ = ["BY_FLOPS", "MODELS", "Device", "Layer", "model_workload", "workload_of"]


def model_workload(name: str, forward_seconds: float, backward_seconds: float, device: Device = BY_FLOPS) -> Workload:
    """A built-in model whose passes take so long."""
    if name not in MODELS:
        raise InputError(f"there is no built-in model {name!r}: use {', '.join(MODELS)}")
    return workload_of(name, MODELS[name](), forward_seconds, backward_seconds, device)


def workload_of(
    name: str, layers: list[Layer], forward_seconds: float, backward_seconds: float, device: Device = BY_FLOPS
) -> Workload:
    """Layers as a workload; both passes are shared out by what each layer takes on the device, as a rule by its operations.

    The gradients of a layer come together, so the last of its parameters, whose gradient is the first of them, has its time.
    """
    whole = sum(layer.seconds(device) for layer in layers)
    tensors: list[GradientTensor] = []
    for layer in layers:
        share = layer.seconds(device) / whole
        for place, (label, elements) in enumerate(layer.parameters):
            last, first = place == len(layer.parameters) - 1, place == 0
            backward, forward = backward_seconds * share * last, forward_seconds * share * first
            tensors.append(GradientTensor(label, elements, backward, forward))
    return Workload(name, tuple(tensors))
