"""A language model of LSTM layers: at every position it guesses the next symbol."""

from __future__ import annotations

import torch
from torch import nn

from weft.training.models.shapes import text
from weft.training.options import Lstm


class LstmLanguageModel(nn.Module):
    """Symbols (batch, length) to scores (batch, length, symbols)."""

    def __init__(self, symbols: int, options: Lstm) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, options.embedding)
        between = options.dropout if options.layers > 1 else 0.0
        self.lstm = nn.LSTM(options.embedding, options.hidden, options.layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(options.dropout)
        self.scores = nn.Linear(options.hidden, symbols)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.embedding(x))
        scores: torch.Tensor = self.scores(self.dropout(states))
        return scores


def lstm(inputs: tuple[int, ...], classes: int, options: Lstm) -> nn.Module:
    text("lstm", inputs)
    return LstmLanguageModel(classes, options)
