"""What a training file may say about models, data and optimizers, with the defaults. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

FASHION_MNIST_FOLDER = "/usr/share/datasets/fashion-mnist"
"""where Debian's package dataset-fashion-mnist puts its files"""


def at_least(least: float, default: Any) -> Any:
    return field(default=default, metadata={"least": least})


def above(limit: float, default: Any) -> Any:
    return field(default=default, metadata={"above": limit})


def fraction(default: Any) -> Any:
    """From 0, and less than 1."""
    return field(default=default, metadata={"least": 0.0, "below": 1.0})


@dataclass(frozen=True, slots=True)
class Mlp:
    """Fully connected layers; any input is flattened."""

    hidden: tuple[int, ...] = at_least(1, (128, 64))
    dropout: float = fraction(0.0)


@dataclass(frozen=True, slots=True)
class Cnn:
    """Three convolutions and a hidden layer, for images of 4 x 4 and more."""

    width: int = at_least(1, 32)
    hidden: int = at_least(1, 128)
    dropout: float = fraction(0.0)


@dataclass(frozen=True, slots=True)
class Vgg16:
    """VGG-16 for images of 32 x 32 and more."""

    dropout: float = fraction(0.0)


@dataclass(frozen=True, slots=True)
class Resnet20:
    """ResNet-20 for images of 8 x 8 and more, and its deeper kin."""

    width: int = at_least(1, 16)
    blocks: int = at_least(1, 3)
    """in each of three stages: n make 6 n + 2 layers, so 9 are ResNet-56"""


@dataclass(frozen=True, slots=True)
class Lstm:
    """A language model of LSTM layers."""

    embedding: int = at_least(1, 64)
    hidden: int = at_least(1, 128)
    layers: int = at_least(1, 1)
    dropout: float = fraction(0.0)


@dataclass(frozen=True, slots=True)
class Transformer:
    """A causal language model of attention layers."""

    width: int = at_least(1, 64)
    heads: int = at_least(1, 4)
    layers: int = at_least(1, 2)
    dropout: float = fraction(0.0)


@dataclass(frozen=True, slots=True)
class Digits:
    """scikit-learn's digits: 1,797 images of 8 x 8."""

    test_share: float = field(default=0.2, metadata={"above": 0.0, "below": 1.0})


@dataclass(frozen=True, slots=True)
class FashionMnist:
    """Fashion-MNIST, or anything else that MNIST's IDX files hold."""

    folder: str = FASHION_MNIST_FOLDER


@dataclass(frozen=True, slots=True)
class Cifar10:
    """CIFAR-10's binary version."""

    folder: str = "cifar-10-batches-bin"
    augment: bool = True


@dataclass(frozen=True, slots=True)
class SyntheticImages:
    """A pattern for every class, under noise."""

    classes: int = at_least(2, 10)
    channels: int = at_least(1, 3)
    size: int = at_least(1, 32)
    train: int = at_least(1, 4096)
    test: int = at_least(1, 1024)
    noise: float = at_least(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class SyntheticText:
    """Text in which every symbol depends on the two before it."""

    symbols: int = at_least(2, 32)
    length: int = at_least(2, 64)
    train: int = at_least(1, 2048)
    test: int = at_least(1, 512)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the user's, ``module:function``, and the keywords that it is called with."""

    path: str
    keywords: Mapping[str, Any]


MODELS: dict[str, type] = {
    "mlp": Mlp,
    "cnn": Cnn,
    "vgg-16": Vgg16,
    "resnet-20": Resnet20,
    "lstm": Lstm,
    "transformer": Transformer,
}

DATA: dict[str, type] = {
    "digits": Digits,
    "fashion-mnist": FashionMnist,
    "cifar-10": Cifar10,
    "synthetic": SyntheticImages,
    "synthetic-text": SyntheticText,
}


@dataclass(frozen=True, slots=True)
class Optimizer:
    """How gradients become steps."""

    name: Literal["sgd", "adam", "adamw"] = "sgd"
    learning_rate: float = above(0.0, 0.1)
    momentum: float = fraction(0.9)
    """of sgd; the others have their own"""
    weight_decay: float = at_least(0.0, 0.0)
    schedule: Literal["constant", "cosine", "steps"] = "cosine"
    milestones: tuple[float, ...] = field(default=(0.5, 0.75), metadata={"above": 0.0, "below": 1.0})
    """of steps: after these shares of the training the rate is multiplied by ``factor``"""
    factor: float = field(default=0.1, metadata={"above": 0.0, "most": 1.0})
    warmup_steps: int = at_least(0, 0)
    clip_norm: float | None = above(0.0, None)


@dataclass(frozen=True, slots=True)
class StrategyOptions:
    """How workers agree, and what is assumed about them where they are simulated."""

    name: Literal["bsp", "ds-sync", "gossip", "local-sgd", "asp", "ssp"] = "bsp"
    every: int = at_least(1, 8)
    """local-sgd: so many steps between averages"""
    graph: Literal["exponential", "random"] = "exponential"
    """gossip: who meets whom"""
    staleness: int = at_least(0, 3)
    """ssp: so many steps a worker may be ahead of the slowest"""
    servers: int = at_least(0, 0)
    """asp and ssp: so many workers are parameter servers, too; 0: all"""
    ensemble: float | None = fraction(None)
    """the factor of the exponential average of parameters; 0: none; left out: 0.99 for ds-sync, none for others"""
    parts: int = at_least(1, 1)
    """ds-sync and gossip: a step averages one of so many parts of the parameters, in turn"""
    compute_seconds: float = at_least(0.0, 0.1)
    """in memory: what a worker computes in a step"""
    speeds: tuple[float, ...] = field(default=(), metadata={"above": 0.0})
    """in memory: how fast each worker computes, 1 as a rule; left out: all alike"""


CompressName = Literal["none", "spardl", "topk-a", "topk-dsa", "gtopk", "ok-topk", "fp16", "bf16"]
COMPRESS_NAMES: tuple[str, ...] = get_args(CompressName)


@dataclass(frozen=True, slots=True)
class CompressOptions:
    """How gradients are made smaller before they are sent."""

    name: CompressName = "none"
    density: float = field(default=0.01, metadata={"above": 0.0, "most": 1.0})
    """the part that sparse methods send; what they leave is sent later"""
    teams: int = at_least(0, 1)
    """spardl: workers in so many teams; 0: as many as are fastest on this network"""
    residuals: Literal["global", "partial", "local"] = "global"
    """what is kept of what was not sent: everything, or less, as other methods have it"""
    values: Literal["float32", "bfloat16", "float16"] = "float32"
    """as what sparse methods send them"""
    per_layer: bool = False
    """whether every parameter has its own strongest elements"""
    warmup: int = at_least(0, 0)
    """so many steps in which the density falls from a quarter"""
    momentum: float = fraction(0.0)
    """of momentum correction, instead of the optimizer's own"""

    @property
    def is_sparse(self) -> bool:
        return self.name not in ("none", "fp16", "bf16")
