"""The four models of ASC-WFBP's tables as PyTorch modules; parameters stand in the order of the built-in workloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.overlap.models import bert, densenet, inception
from weft.overlap.models.inception import Branch, Conv
from weft.overlap.models.resnet import BLOCKS as STAGES

HEADS = 12
DROPPED = 0.1


class Convolution(nn.Module):
    """Without bias, normalized, and rectified."""

    def __init__(self, channels: int, conv: Conv, rectified: bool = True) -> None:
        super().__init__()
        size = (conv.kernel, conv.kernel) if isinstance(conv.kernel, int) else conv.kernel
        padding = (size[0] // 2, size[1] // 2) if conv.padding else (0, 0)
        self.conv = nn.Conv2d(channels, conv.channels, size, conv.stride, padding, bias=False)
        self.norm = nn.BatchNorm2d(conv.channels)
        self.rectified = rectified

    def forward(self, image: Tensor) -> Tensor:
        image = self.norm(self.conv(image))
        return functional.relu(image, inplace=True) if self.rectified else image


class Classifier(nn.Module):
    """The mean of all places, and a matrix."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.matrix = nn.Linear(channels, 1000)

    def forward(self, image: Tensor) -> Tensor:
        scores: Tensor = self.matrix(image.mean((2, 3)))
        return scores


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.inside = nn.Sequential(
            Convolution(channels, Conv(width, 1)),
            Convolution(width, Conv(width, 3, stride)),
            Convolution(width, Conv(4 * width, 1), rectified=False),
        )
        same = channels == 4 * width
        self.shortcut = nn.Identity() if same else Convolution(channels, Conv(4 * width, 1, stride), rectified=False)

    def forward(self, image: Tensor) -> Tensor:
        return functional.relu(self.inside(image) + self.shortcut(image), inplace=True)


def resnet_152() -> nn.Module:
    parts: list[nn.Module] = [Convolution(3, Conv(64, 7, 2)), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate(STAGES[152]):
        for block in range(blocks):
            parts.append(Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
            channels = 4 * (64 << stage)
    return nn.Sequential(*parts, Classifier(channels))


def _normalized_first(channels: int, out: int, kernel: int) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, out, kernel, padding=kernel // 2, bias=False)
    return [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), convolution]


class DenseBlock(nn.Module):
    """Every layer reads what all before it have written."""

    def __init__(self, channels: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                *_normalized_first(channels + densenet.GROWTH * i, densenet.BOTTLENECK, 1),
                *_normalized_first(densenet.BOTTLENECK, densenet.GROWTH, 3),
            )
            for i in range(depth)
        )

    def forward(self, image: Tensor) -> Tensor:
        images = [image]
        for layer in self.layers:
            images.append(layer(torch.cat(images, 1)))
        return torch.cat(images, 1)


def densenet_201() -> nn.Module:
    channels = 2 * densenet.GROWTH
    parts: list[nn.Module] = [Convolution(3, Conv(channels, 7, 2)), nn.MaxPool2d(3, 2, 1)]
    for block, depth in enumerate(densenet.BLOCKS):
        parts.append(DenseBlock(channels, depth))
        channels += densenet.GROWTH * depth
        if block + 1 < len(densenet.BLOCKS):
            parts += [*_normalized_first(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
    return nn.Sequential(*parts, nn.BatchNorm2d(channels), nn.ReLU(inplace=True), Classifier(channels))


class Joined(nn.Module):
    """Several of the same image, joined by channel."""

    def __init__(self, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, image: Tensor) -> Tensor:
        return torch.cat([part(image) for part in self.parts], 1)


def _branch(channels: int, branch: Branch) -> tuple[list[nn.Module], int]:
    parts: list[nn.Module] = []
    for turn in branch:
        pair = [turn] if isinstance(turn, Conv) else turn
        parts.append(Joined([Convolution(channels, conv) for conv in pair]))
        channels = sum(conv.channels for conv in pair)
    return parts, channels


def inception_v4() -> nn.Module:
    first, channels = _branch(3, inception.STEM)
    parts = list(first)
    for branches, pooling in (
        (((Conv(96, 3, 2, False),),), "most"),
        (inception.MIXED_4, ""),
        (((Conv(192, 3, 2, False),),), "most"),
        *[(inception.INCEPTION_A, "mean")] * 4,
        (inception.REDUCTION_A, "most"),
        *[(inception.INCEPTION_B, "mean")] * 7,
        (inception.REDUCTION_B, "most"),
        *[(inception.INCEPTION_C, "mean")] * 3,
    ):
        made = [_branch(channels, branch) for branch in branches]
        joined = [nn.Sequential(*layers) for layers, _ in made]
        if pooling == "mean":
            joined[-1].insert(0, nn.AvgPool2d(3, 1, 1, count_include_pad=False))
        elif pooling == "most":
            joined.append(nn.Sequential(nn.MaxPool2d(3, 2)))
        channels = sum(out for _, out in made) + (channels if pooling == "most" else 0)
        parts.append(Joined(joined))
    return nn.Sequential(*parts, Classifier(channels))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(bert.HIDDEN, bert.HIDDEN) for _ in range(4))
        self.norm = nn.LayerNorm(bert.HIDDEN)
        self.inner, self.outer = nn.Linear(bert.HIDDEN, bert.INNER), nn.Linear(bert.INNER, bert.HIDDEN)
        self.last_norm = nn.LayerNorm(bert.HIDDEN)

    def forward(self, text: Tensor) -> Tensor:
        query, key, value = (
            part(text).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = functional.dropout(functional.softmax(query @ key.transpose(-1, -2) / 8, -1), DROPPED)
        read = (scores @ value).transpose(1, 2).flatten(2)
        text = self.norm(text + functional.dropout(self.output(read), DROPPED))
        changed = functional.dropout(self.outer(functional.gelu(self.inner(text))), DROPPED)
        out: Tensor = self.last_norm(text + changed)
        return out


class Bert(nn.Module):
    """With the heads of its pre-training: scores of words, and of the next sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.kinds = (
            nn.Embedding(count, bert.HIDDEN) for count in (bert.VOCABULARY, bert.POSITIONS, 2)
        )
        self.norm = nn.LayerNorm(bert.HIDDEN)
        self.encoders = nn.Sequential(*(Encoder() for _ in range(bert.LAYERS)))
        self.pooler, self.transform = nn.Linear(bert.HIDDEN, bert.HIDDEN), nn.Linear(bert.HIDDEN, bert.HIDDEN)
        self.transform_norm = nn.LayerNorm(bert.HIDDEN)
        self.decoder = nn.Linear(bert.HIDDEN, bert.VOCABULARY)
        self.decoder.weight = self.words.weight
        self.next_sentence = nn.Linear(bert.HIDDEN, 2)

    def forward(self, symbols: Tensor) -> tuple[Tensor, Tensor]:
        text = self.words(symbols) + self.places.weight[: symbols.shape[1]] + self.kinds.weight[0]
        text = self.encoders(functional.dropout(self.norm(text), DROPPED))
        follows = self.next_sentence(torch.tanh(self.pooler(text[:, 0])))
        return self.decoder(self.transform_norm(functional.gelu(self.transform(text)))), follows


LARGE_MODELS: dict[str, Callable[[], nn.Module]] = {
    "resnet-152": resnet_152,
    "densenet-201": densenet_201,
    "inception-v4": inception_v4,
    "bert-base": Bert,
}
