"""A small causal transformer: at every position it guesses the next symbol."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from weft.training.models.shapes import text
from weft.training.options import Transformer


class Block(nn.Module):
    """Attention to what came before, then two layers at every position; each is added to its input."""

    def __init__(self, options: Transformer) -> None:
        super().__init__()
        width = options.width
        self.heads = options.heads
        self.attention_norm, self.layers_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(options.dropout)

    def attended(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        mixed = self.mixed(x).view(batch, length, 3, self.heads, width // self.heads)
        queries, keys, values = mixed.permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        joined: torch.Tensor = self.joined(heads.transpose(1, 2).reshape(batch, length, width))
        return joined

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attended(self.attention_norm(x)))
        out: torch.Tensor = x + self.dropout(self.layers(self.layers_norm(x)))
        return out


class TransformerLanguageModel(nn.Module):
    """Symbols (batch, length) to scores (batch, length, symbols)."""

    def __init__(self, length: int, symbols: int, options: Transformer) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, options.width)
        self.positions = nn.Embedding(length, options.width)
        self.blocks = nn.Sequential(*(Block(options) for _ in range(options.layers)))
        self.norm = nn.LayerNorm(options.width)
        self.scores = nn.Linear(options.width, symbols)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        scores: torch.Tensor = self.scores(self.norm(self.blocks(self.embedding(x) + self.positions(places))))
        return scores


def transformer(inputs: tuple[int, ...], classes: int, options: Transformer) -> nn.Module:
    return TransformerLanguageModel(text("transformer", inputs), classes, options)
