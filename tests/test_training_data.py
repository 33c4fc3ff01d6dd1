"""Data: readers of files, synthetic data, and who sees which example when."""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InputError
from weft.training.data import READERS, Data, Split
from weft.training.data.idx import FILES, read_idx
from weft.training.data.split import moved_and_mirrored
from weft.training.data.synthetic import LIKELY
from weft.training.options import Cifar10, Digits, FashionMnist, SyntheticImages, SyntheticText
from weft.training.sampler import Position, Sampler

CPU = torch.device("cpu")


def idx(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def mnist_folder(folder: Path, compress: bool) -> tuple[list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]], Path]:
    random = np.random.default_rng(3)
    arrays = [random.integers(0, 256 if i % 2 == 0 else 10, (5 + i // 2, 28, 28)[: 3 if i % 2 == 0 else 1], np.uint8)
              for i in range(4)]  # fmt: skip
    for name, array in zip(FILES, arrays, strict=True):
        data = idx(array)
        (folder / (name + ".gz" * compress)).write_bytes(gzip.compress(data) if compress else data)
    return arrays, folder


def beside(name: str) -> Path:
    return Path(name)


@pytest.mark.parametrize("compress", [False, True])
def test_idx_files_are_read_as_they_were_written(tmp_path: Path, compress: bool) -> None:
    arrays, folder = mnist_folder(tmp_path, compress)
    data = READERS["fashion-mnist"](FashionMnist(str(folder)), beside)
    for split, images, labels in ((data.train, arrays[0], arrays[1]), (data.test, arrays[2], arrays[3])):
        assert torch.equal(split.inputs, torch.from_numpy(images)[:, None])
        assert torch.equal(split.targets, torch.from_numpy(labels))
    inputs, targets = data.batch(data.train, torch.arange(5), CPU)
    assert targets.dtype == torch.int64
    assert abs(float(inputs.mean())) < 1e-3
    assert abs(float(inputs.std()) - 1) < 1e-2


def test_idx_files_that_lie_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(idx(np.zeros((3, 4), np.uint8))[:-1])
    with pytest.raises(InputError, match="says it holds 3 x 4 bytes, but has 11"):
        read_idx(file)
    file.write_bytes(b"PNG")
    with pytest.raises(InputError, match="is not an IDX file"):
        read_idx(file)
    packed = tmp_path / "x.gz"
    packed.write_bytes(gzip.compress(idx(np.zeros((3, 4), np.uint8)))[:-5])
    with pytest.raises(InputError, match="cannot read"):
        read_idx(packed)


def test_missing_data_say_where_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no folder .*nowhere.*package dataset-fashion-mnist"):
        READERS["fashion-mnist"](FashionMnist("nowhere"), beside)
    with pytest.raises(InputError, match="lacks train-images-idx3-ubyte and train-labels"):
        READERS["fashion-mnist"](FashionMnist(str(tmp_path)), beside)
    (tmp_path / "data_batch_1").write_bytes(b"pickle")
    with pytest.raises(InputError, match=r"binary version .*pickles are not read"):
        READERS["cifar-10"](Cifar10(str(tmp_path)), beside)


def test_cifar_records_are_a_class_and_three_planes(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    records = random.integers(0, 256, (12, 3073), np.uint8)
    records[:, 0] %= 10
    for i in range(6):
        name = f"data_batch_{i + 1}.bin" if i < 5 else "test_batch.bin"
        records[2 * i : 2 * i + 2].tofile(tmp_path / name)
    data = READERS["cifar-10"](Cifar10(str(tmp_path)), beside)
    assert (len(data.train), len(data.test)) == (10, 2)
    assert int(data.train.inputs[3, 2, 1, 5]) == records[3, 1 + 2 * 1024 + 1 * 32 + 5]
    assert data.train.targets.tolist() == records[:10, 0].tolist()
    (tmp_path / "test_batch.bin").write_bytes(b"x" * 3072)
    with pytest.raises(InputError, match="no multiple of 3073"):
        READERS["cifar-10"](Cifar10(str(tmp_path)), beside)


def test_digits_are_divided_without_overlap_and_always_alike() -> None:
    data, again = (READERS["digits"](Digits(), beside) for _ in range(2))
    assert (len(data.train), len(data.test)) == (1438, 359)
    assert data.shape == (1, 8, 8)
    assert torch.equal(data.test.inputs, again.test.inputs)
    rows = torch.cat([data.train.inputs, data.test.inputs]).flatten(1)
    from sklearn.datasets import load_digits

    images, targets = load_digits(return_X_y=True)
    wanted = sorted((target, *image) for image, target in zip((images / 8 - 1).tolist(), targets.tolist(), strict=True))
    found = zip(rows.tolist(), torch.cat([data.train.targets, data.test.targets]).tolist(), strict=True)
    assert sorted((target, *image) for image, target in found) == wanted


def test_synthetic_images_are_nearest_to_their_own_pattern() -> None:
    data = READERS["synthetic"](SyntheticImages(size=16, train=64, test=32), beside)
    middles = torch.stack([data.train.inputs[data.train.targets == k].mean(0) for k in range(10)]).flatten(1)
    nearest = torch.cdist(data.test.inputs.flatten(1), middles).argmin(1)
    assert float((nearest == data.test.targets).float().mean()) > 0.9


def test_synthetic_text_follows_the_two_symbols_before() -> None:
    data = READERS["synthetic-text"](SyntheticText(symbols=4, length=50, train=200, test=10), beside)
    assert torch.equal(data.train.inputs[:, 1:], data.train.targets[:, :-1])
    seen: dict[tuple[int, int], Counter[int]] = {}
    for inputs, targets in zip(data.train.inputs.tolist(), data.train.targets.tolist(), strict=True):
        for i in range(1, 50):
            seen.setdefault((inputs[i - 1], inputs[i]), Counter())[targets[i]] += 1
    guessed = sum(max(c.values()) for c in seen.values()) / sum(c.total() for c in seen.values())
    assert LIKELY[0] - 0.02 < guessed < 0.95


def test_moved_and_mirrored_images_are_parts_of_the_padded_ones() -> None:
    image = torch.arange(1.0, 65.0).view(1, 1, 8, 8).expand(40, 1, 8, 8)
    random = torch.Generator().manual_seed(1)
    moved = moved_and_mirrored(image, random)
    assert moved.shape == image.shape
    padded = torch.nn.functional.pad(image[:1], (4,) * 4)
    wanted = [padded[0, 0, i : i + 8, j : j + 8] for i in range(9) for j in range(9)]
    wanted += [part.flip(1) for part in wanted]
    assert all(any(torch.equal(one[0], part) for part in wanted) for one in moved)
    assert len({one.sum().item() for one in moved}) > 10
    assert torch.equal(moved, moved_and_mirrored(image, torch.Generator().manual_seed(1)))


@pytest.mark.parametrize(
    ("inputs", "targets", "classes", "told"),
    [
        (3, [0, 1], 2, "3 inputs have 2 targets"),
        (0, [], 2, "there are no examples"),
        (2, [0, 2], 2, "targets go from 0 to 2"),
        (2, [0.0, 1.0], 2, "whole numbers"),
    ],
)
def test_data_that_do_not_fit_together_are_refused(inputs: int, targets: list[float], classes: int, told: str) -> None:
    def made() -> Data:
        split = Split(torch.zeros(inputs, 3), torch.tensor(targets))
        return Data(split, split, classes)

    with pytest.raises(InputError, match=told):
        made()


@given(
    examples=st.integers(1, 200), batch=st.integers(1, 20), world=st.integers(1, 9), seed=st.integers(0, 5),
    epoch=st.integers(0, 3),
)  # fmt: skip
def test_no_example_is_seen_twice_in_an_epoch_and_few_are_left_out(
    examples: int, batch: int, world: int, seed: int, epoch: int
) -> None:
    if batch * world > examples:
        with pytest.raises(InputError, match="make the batch smaller"):
            Sampler(examples, batch, world, seed)
        return
    sampler = Sampler(examples, batch, world, seed)
    position, seen = Position(17, epoch, 0), []
    while position.epoch == epoch:
        for rank in range(world):
            own = sampler.indices(position, rank)
            assert len(own) == batch
            seen += own.tolist()
        position = sampler.after(position)
    assert position == Position(17 + sampler.epoch_steps, epoch + 1, 0)
    assert len(seen) == len(set(seen)) == sampler.epoch_steps * batch * world
    assert set(seen) <= set(range(examples))
    assert examples - len(seen) < batch * world


def test_the_workers_number_does_not_change_what_a_step_sees() -> None:
    few, many = Sampler(100, 8, 2, 1), Sampler(100, 4, 4, 1)
    position = few.after(few.after(Position()))
    assert position == many.after(many.after(Position()))
    seen = [torch.cat([s.indices(position, rank) for rank in range(s.world)]).tolist() for s in (few, many)]
    assert seen[0] == seen[1]


def test_epochs_and_seeds_have_their_own_orders() -> None:
    orders = {
        tuple(Sampler(50, 50, 1, seed).indices(Position(0, epoch, 0), 0).tolist())
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len(orders) == 4
