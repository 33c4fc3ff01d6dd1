from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from overlap_cases import workloads
from weft.errors import InputError
from weft.overlap import MODELS, Device, GradientTensor, Workload, model_workload
from weft.overlap.models.inception import inception_v4

# Gradient tensors and parameters: of the paper's four, Table III has 467, 604, 449 and 206 tensors and 60, 20, 42 and 110
# million; the exact numbers are those of the usual implementations.
KNOWN = {
    "resnet-20": (59, 269_722),
    "resnet-50": (161, 25_557_032),
    "resnet-152": (467, 60_192_808),
    "densenet-201": (604, 20_013_928),
    "inception-v4": (449, 42_679_816),
    "vgg-16": (32, 138_357_544),
    "bert-base": (206, 110_106_428),
}
GIGA_MULTIPLICATIONS = {"resnet-50": 4.1, "resnet-152": 11.5, "densenet-201": 4.3, "inception-v4": 12.3, "vgg-16": 15.5}


@pytest.mark.parametrize("name", list(MODELS))
def test_a_model_has_the_known_number_of_tensors_and_parameters(name: str) -> None:
    workload = model_workload(name, 1.0, 2.0)
    assert (len(workload.tensors), workload.elements) == KNOWN[name]
    assert len({tensor.name for tensor in workload.tensors}) == len(workload.tensors)
    assert workload.nbytes == 4 * workload.elements
    assert workload.forward_seconds == pytest.approx(1.0)
    assert workload.backward_seconds == pytest.approx(2.0)


@pytest.mark.parametrize("name", list(GIGA_MULTIPLICATIONS))
def test_a_model_takes_the_known_number_of_operations(name: str) -> None:
    flops = sum(layer.flops for layer in MODELS[name]())
    assert flops / 2e9 == pytest.approx(GIGA_MULTIPLICATIONS[name], rel=0.03)


def test_gradients_come_from_the_last_layer_to_the_first() -> None:
    workload = model_workload("vgg-16", 1.0, 2.0)
    names = [workload.tensors[place].name for place in workload.order]
    assert names[:3] == ["classifier.2.bias", "classifier.2.weight", "classifier.1.bias"]
    assert workload.ready[0] == workload.ready[1] < workload.ready[2]
    # Nine tenths of the parameters are there after a hundredth of the time: what makes VGG hard to hide.
    early = workload.sizes[workload.ready < 0.02].sum()
    assert early / workload.nbytes > 0.85


def test_memory_takes_the_time_that_operations_do_not() -> None:
    def share(device: Device) -> float:
        workload = model_workload("densenet-201", 1.0, 1.0, device)
        return sum(t.backward_seconds for t in workload.tensors if "norm" in t.name)

    assert share(Device(1.0)) < 0.05
    assert 0.3 < share(Device(13.45e12, 616e9)) < 0.9
    assert share(Device(1.0, 1e-9)) > share(Device(13.45e12, 616e9))


def test_smaller_images_take_fewer_operations_and_no_fewer_parameters() -> None:
    large, small = inception_v4(299), inception_v4(224)
    assert sum(layer.flops for layer in small) < 0.6 * sum(layer.flops for layer in large)
    assert [layer.parameters for layer in small] == [layer.parameters for layer in large]


@given(workloads())
def test_a_workload_parses_back(workload: Workload) -> None:
    assert Workload.parse(workload.to_json()) == workload


def test_a_workload_is_saved_scaled_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "workload.json"
    model_workload("resnet-20", 1.0, 2.0).save(path)
    workload = Workload.load(path).scaled(0.5, 3.0)
    assert workload.forward_seconds == pytest.approx(0.5)
    assert workload.backward_seconds == pytest.approx(3.0)
    with pytest.raises(InputError, match="cannot read"):
        Workload.load(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "not a workload"),
        ("[1", "not a workload"),
        ('{"weft_workload": 9}', "version 9"),
        (
            '{"weft_workload": 1, "name": "x", "update_seconds": 0, "order": [0], "tensors": [["a", 0, 4, 1, 1]]}',
            "0 elements",
        ),
        (
            '{"weft_workload": 1, "name": "x", "update_seconds": 0, "order": [1], "tensors": [["a", 1, 4, 1, 1]]}',
            "order",
        ),
        ('{"weft_workload": 1, "name": "x", "update_seconds": 0, "order": [], "tensors": []}', "no gradients"),
        (
            '{"weft_workload": 1, "name": "x", "update_seconds": -1, "order": [0], "tensors": [["a", 1, 4, 1, 1]]}',
            "update",
        ),
        (
            '{"weft_workload": 1, "name": "x", "update_seconds": 0, "order": [0], "tensors": [["a", 1, 4, NaN, 1]]}',
            "backward",
        ),
    ],
)
def test_a_wrong_workload_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Workload.parse(text)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="no built-in model 'gpt'"):
        model_workload("gpt", 1.0, 2.0)
    with pytest.raises(InputError, match="no times to scale"):
        Workload("still", (GradientTensor("g", 1, 0.0),)).scaled(1.0, 1.0)
