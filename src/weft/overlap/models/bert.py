"""BERT-Base (Devlin et al. 2019) with the heads of its pre-training; the decoder shares the embedding's matrix.

The shared matrix has its gradient only at the end of the backward pass, where the embedding's part is added.
"""

from __future__ import annotations

from weft.overlap.models.layers import Layer, linear

HIDDEN = 768
INNER = 4 * HIDDEN
LAYERS = 12
VOCABULARY = 30522
POSITIONS = 512


def bert_base(tokens: int = 64) -> list[Layer]:
    """For sequences of so many tokens."""
    layers = [
        Layer("embeddings.word", (("embeddings.word.weight", VOCABULARY * HIDDEN),), 0.0),
        Layer("embeddings.position", (("embeddings.position.weight", POSITIONS * HIDDEN),), 0.0),
        Layer("embeddings.type", (("embeddings.type.weight", 2 * HIDDEN),), 0.0),
        _norm("embeddings.norm", tokens),
    ]
    for i in range(LAYERS):
        layers += _encoder(f"encoder.{i}", tokens)
    decoding = 2.0 * HIDDEN * VOCABULARY * tokens
    return [
        *layers,
        linear("pooler", HIDDEN, HIDDEN),
        linear("predictions.transform", HIDDEN, HIDDEN, tokens),
        _norm("predictions.norm", tokens),
        Layer("predictions.decoder", (("predictions.decoder.bias", VOCABULARY),), decoding),
        linear("next_sentence", HIDDEN, 2),
    ]


def _encoder(name: str, tokens: int) -> list[Layer]:
    attention = 2 * 2.0 * HIDDEN * tokens * tokens  # scores, and the weighted sum of values
    return [
        *(linear(f"{name}.attention.{part}", HIDDEN, HIDDEN, tokens) for part in ("query", "key", "value")),
        linear(f"{name}.attention.output", HIDDEN, HIDDEN, tokens, attention),
        _norm(f"{name}.attention.norm", tokens),
        linear(f"{name}.inner", HIDDEN, INNER, tokens),
        linear(f"{name}.outer", INNER, HIDDEN, tokens),
        _norm(f"{name}.norm", tokens),
    ]


def _norm(name: str, tokens: int) -> Layer:
    """Normalization, after dropping out and adding: eight passes."""
    return Layer(
        name, ((f"{name}.weight", HIDDEN), (f"{name}.bias", HIDDEN)), 5.0 * HIDDEN * tokens, 8.0 * HIDDEN * tokens
    )
