"""Models: shapes, gradients, and as many parameters as they should have."""

from __future__ import annotations

import pytest
import torch

from weft.errors import InputError
from weft.training.evaluation import loss_of
from weft.training.models import BUILDERS
from weft.training.options import MODELS, Cnn, Lstm, Mlp, Resnet20, Transformer

IMAGES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]
CASES = [
    *(("mlp", shape) for shape in IMAGES),
    *(("cnn", shape) for shape in IMAGES),
    *(("resnet-20", shape) for shape in IMAGES),
    ("vgg-16", (3, 32, 32)),
    ("lstm", (12,)),
    ("transformer", (12,)),
]


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def batch(shape: tuple[int, ...], classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    if len(shape) == 1:
        text = torch.randint(0, classes, (4, shape[0] + 1), generator=random)
        return text[:, :-1], text[:, 1:]
    return torch.randn(4, *shape, generator=random), torch.randint(0, classes, (4,), generator=random)


@pytest.mark.parametrize(("name", "shape"), CASES, ids=lambda x: x if isinstance(x, str) else "x".join(map(str, x)))
def test_every_parameter_has_a_gradient_and_a_step_lowers_the_loss(name: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    model = BUILDERS[name](shape, 7, MODELS[name]())
    inputs, targets = batch(shape, 7)
    scores = model(inputs)
    assert scores.shape == (*targets.shape, 7)
    loss = loss_of(scores, targets)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    optimizer.step()
    assert loss_of(model(inputs), targets) < loss


def test_parameter_counts_are_those_of_the_papers() -> None:
    assert parameters(BUILDERS["vgg-16"]((3, 32, 32), 10, MODELS["vgg-16"]())) == 14_724_042
    assert parameters(BUILDERS["resnet-20"]((3, 32, 32), 10, MODELS["resnet-20"]())) == 269_722
    assert parameters(BUILDERS["resnet-20"]((3, 32, 32), 10, Resnet20(blocks=9))) == 853_018


def test_parameter_counts_follow_from_the_options() -> None:
    assert parameters(BUILDERS["mlp"]((1, 8, 8), 10, Mlp((128, 64)))) == 65 * 128 + 129 * 64 + 65 * 10
    convolutions = (9 * 1 + 1) * 4 + (9 * 4 + 1) * 8 + (9 * 8 + 1) * 16
    assert parameters(BUILDERS["cnn"]((1, 28, 28), 10, Cnn(4, 20))) == convolutions + (16 * 49 + 1) * 20 + 21 * 10
    lstm = 4 * 6 * (5 + 6 + 2)
    assert parameters(BUILDERS["lstm"]((9,), 11, Lstm(5, 6, 1))) == 11 * 5 + lstm + 7 * 11
    block = 4 * 8 + 9 * 24 + 9 * 8 + 9 * 32 + 33 * 8
    assert parameters(BUILDERS["transformer"]((9,), 11, Transformer(8, 2, 3))) == 11 * 8 + 9 * 8 + 3 * block + 16 + 99


def test_the_transformer_does_not_look_ahead() -> None:
    torch.manual_seed(0)
    model = BUILDERS["transformer"]((12,), 7, Transformer()).eval()
    text, _ = batch((12,), 7)
    changed = text.clone()
    changed[:, 6:] = (changed[:, 6:] + 1) % 7
    assert torch.allclose(model(text)[:, :6], model(changed)[:, :6], atol=1e-6)
    assert not torch.allclose(model(text)[:, 6:], model(changed)[:, 6:], atol=1e-3)


@pytest.mark.parametrize(
    ("name", "shape", "told"),
    [
        ("cnn", (64,), "needs images"),
        ("vgg-16", (1, 28, 28), "32 x 32 or more; these have 28 x 28"),
        ("lstm", (1, 8, 8), "needs sequences"),
        ("transformer", (3, 32, 32), "needs sequences"),
    ],
)
def test_a_model_for_other_data_is_refused(name: str, shape: tuple[int, ...], told: str) -> None:
    with pytest.raises(InputError, match=told):
        BUILDERS[name](shape, 10, MODELS[name]())
