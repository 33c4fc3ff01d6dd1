"""The training of one worker, in this process: resumption, checkpoints, metrics, learning rates, users' functions."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from weft.cli.output import print_json
from weft.collectives import ring
from weft.errors import InputError
from weft.network import full_mesh
from weft.torch import Choice
from weft.training import Config, Summary, config_of, train
from weft.training.checkpoint import FILE, VERSION, checkpoint_of, random_state, restore_random
from weft.training.joining import joined
from weft.training.metrics import MetricsFile, StepRecord
from weft.training.options import Optimizer
from weft.training.rates import learning_rate
from weft.training.seeds import derived, seed_everything
from weft.training.synchronization import network_of, synchronized

CPU = torch.device("cpu")
IMAGES = '[data]\nname = "synthetic"\nsize = 8\nchannels = 1\ntrain = 70\ntest = 20\nclasses = 3\n'
MLP = '[model]\nname = "mlp"\nhidden = [8]\ndropout = 0.2\n' + IMAGES
RESIDUAL = '[model]\nname = "resnet-20"\nwidth = 2\n' + IMAGES
REST = '[training]\nbatch = 8\nepochs = 2\n[optimizer]\nname = "{optimizer}"\nlearning_rate = 0.02\n[plan]\nplan = "backend"\n'


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small layers on a busy machine wait for their threads more than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Listener:
    """An audience that remembers, and sends a signal after a step if it is told to."""

    def __init__(self, stop_after: int = 0) -> None:
        self.notes: list[str] = []
        self.records: list[StepRecord] = []
        self._stop_after = stop_after

    def note(self, text: str) -> None:
        self.notes.append(text)

    def stepped(self, record: StepRecord, share: float) -> None:
        assert 0 < share <= 1
        self.records.append(record)
        if record.step == self._stop_after:
            signal.raise_signal(signal.SIGTERM)


def job(folder: Path, text: str = MLP, optimizer: str = "sgd") -> Config:
    config = config_of(text + REST.replace("{optimizer}", optimizer), folder / "job.toml")
    return replace(config, output=replace(config.output, folder=str(folder / "out")))


def state(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = torch.load(folder / "out" / FILE, weights_only=True)
    return content


def same_bits(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_bits(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_bits, one, other))
    return bool(one == other)


@pytest.mark.parametrize(("text", "optimizer"), [(MLP, "sgd"), (RESIDUAL, "adamw")], ids=["mlp", "batch norm"])
def test_an_interrupted_training_ends_with_the_same_bits(tmp_path: Path, text: str, optimizer: str) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    train(job(whole, text, optimizer), Listener())
    interrupted = train(job(halves, text, optimizer), Listener(stop_after=3))
    assert interrupted.signal == signal.SIGTERM
    assert 3 < interrupted.step < 8
    resumed = train(job(halves, text, optimizer), Listener(), resume=True)
    assert resumed.step == interrupted.step + resumed.steps == 16
    one, other = state(whole), state(halves)
    for key in ("model", "optimizer", "ranks", "position"):
        assert same_bits(one[key], other[key]), key
    lines = [[json.loads(line) for line in (x / "out/metrics.jsonl").read_text().splitlines()] for x in (whole, halves)]
    assert [line["step"] for line in lines[1]] == list(range(1, 17))
    assert [line["loss"] for line in lines[0]] == [line["loss"] for line in lines[1]]


def test_ending_after_some_steps_and_going_on_is_the_same_as_not_ending(tmp_path: Path) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    train(job(whole, RESIDUAL), Listener())
    config = job(halves, RESIDUAL)
    train(replace(config, training=replace(config.training, steps=3)), Listener())
    assert state(halves)["position"] == {"step": 3, "epoch": 0, "offset": 24}
    train(config, Listener(), resume=True)
    assert same_bits(state(whole)["model"], state(halves)["model"])


def test_metrics_have_every_field_and_accuracy_at_the_end_of_epochs(tmp_path: Path) -> None:
    summary = train(job(tmp_path), Listener())
    lines = [json.loads(line) for line in Path(summary.metrics).read_text().splitlines()]
    for line in lines:
        assert {"step", "epoch", "loss", "seconds", "communication_seconds", "bytes_sent"} <= line.keys()
    assert [line["step"] for line in lines if "accuracy" in line] == [8, 16]
    assert [line["epoch"] for line in lines] == [1] * 8 + [2] * 8
    assert summary.accuracy == lines[-1]["accuracy"]
    assert summary.to_json()["interrupted"] is False


def test_another_seed_gives_another_result_and_the_same_seed_the_same(tmp_path: Path) -> None:
    results = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        config = job(tmp_path / name)
        train(replace(config, training=replace(config.training, seed=seed)), Listener())
        results.append(state(tmp_path / name)["model"])
    assert same_bits(results[0], results[1])
    assert not same_bits(results[0], results[2])


def test_a_batch_in_pieces_has_the_gradient_of_the_whole(tmp_path: Path) -> None:
    results = []
    for pieces in (1, 4):
        config = job(tmp_path / str(pieces), MLP.replace("0.2", "0.0"))
        train(replace(config, training=replace(config.training, accumulate=pieces)), Listener())
        results.append(state(tmp_path / str(pieces))["model"])
    for name, tensor in results[0].items():
        assert torch.allclose(tensor, results[1][name], atol=1e-5), name


def test_a_folder_with_a_training_is_not_written_over(tmp_path: Path) -> None:
    config = job(tmp_path)
    train(config, Listener())
    with pytest.raises(InputError, match=r"holds a training already: go on with --resume, start again with --fresh"):
        train(config, Listener())
    again = train(config, Listener(), fresh=True)
    assert again.steps == 16
    at_its_end = train(config, Listener(), resume=True)
    assert (at_its_end.steps, at_its_end.step) == (0, 16)
    assert at_its_end.accuracy == again.accuracy


def test_resuming_where_nothing_is_yet_starts_and_says_so(tmp_path: Path) -> None:
    listener = Listener()
    assert train(job(tmp_path), listener, resume=True).steps == 16
    assert "no checkpoint" in listener.notes[0]


def test_a_checkpoint_of_another_model_is_refused_and_other_changes_are_told(tmp_path: Path) -> None:
    config = job(tmp_path)
    short = replace(config, training=replace(config.training, steps=3))
    train(short, Listener())
    other = job(tmp_path, MLP.replace("[8]", "[9]"))
    with pytest.raises(InputError, match=r"another training: model.options.hidden was \[8\] and is \[9\]"):
        train(other, Listener(), resume=True)
    with pytest.raises(InputError, match=r"optimizer\.name was"):
        train(job(tmp_path, optimizer="adam"), Listener(), resume=True)
    listener = Listener()
    train(replace(short, training=replace(short.training, batch=4, steps=5)), listener, resume=True)
    assert "will differ" in listener.notes[0]
    assert "training.batch was 8 and is 4" in listener.notes[0]


def test_a_damaged_checkpoint_is_bad_input(tmp_path: Path) -> None:
    config = job(tmp_path)
    train(config, Listener())
    file = tmp_path / "out" / FILE
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(InputError, match="is not a checkpoint that Weft wrote, or is damaged"):
        train(config, Listener(), resume=True)
    dangerous = io.BytesIO()
    torch.save({"weft_checkpoint": VERSION, "x": print}, dangerous)
    with pytest.raises(InputError, match="holds more than tensors"):
        checkpoint_of(dangerous.getvalue(), "x")
    future = io.BytesIO()
    torch.save({"weft_checkpoint": VERSION + 1}, future)
    with pytest.raises(InputError, match=f"of version {VERSION + 1}"):
        checkpoint_of(future.getvalue(), "x")


def test_a_checkpoint_that_cannot_be_finished_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = job(tmp_path)
    train(replace(config, training=replace(config.training, steps=3)), Listener())
    before = (tmp_path / "out" / FILE).read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("weft.files.os.fsync", full)
    with pytest.raises(InputError, match="No space left"):
        train(config, Listener(), resume=True)
    assert (tmp_path / "out" / FILE).read_bytes() == before
    assert not list((tmp_path / "out").glob(".*.part"))


def test_metrics_after_the_checkpoint_and_half_a_line_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    file = MetricsFile(path, 2)
    file.add(StepRecord(3, 1, 0.5, 8, 1.0, 1.0, 0.0, 0.0, 0, 0.1))
    file.close()
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3]
    MetricsFile(path, 0).close()
    assert path.read_text() == ""


def test_all_random_numbers_go_on_where_they_were() -> None:
    import random

    import numpy as np

    def drawn() -> tuple[float, float, float, float]:
        return float(torch.rand(())), float(np.random.rand()), random.random(), random.gauss(0, 1)

    seed_everything(3)
    drawn()
    kept = random_state(CPU)
    buffer = io.BytesIO()
    torch.save(kept, buffer)
    wanted = [drawn() for _ in range(3)]
    buffer.seek(0)
    restore_random(torch.load(buffer, weights_only=True), CPU)
    assert [drawn() for _ in range(3)] == wanted


def test_derived_seeds_are_fixed_and_unrelated() -> None:
    assert derived(1, 2, 3) == derived(1, 2, 3)
    assert len({derived(a, b, c) for a in range(3) for b in range(3) for c in range(3)}) == 27


def test_learning_rates_follow_their_schedule() -> None:
    constant, cosine = Optimizer(schedule="constant", learning_rate=2.0), Optimizer(learning_rate=2.0)
    assert learning_rate(constant, 0.9, 5) == 2.0
    assert [round(learning_rate(cosine, x, 5), 6) for x in (0, 0.5, 1)] == [2.0, 1.0, 0.0]
    steps = Optimizer(schedule="steps", learning_rate=2.0, milestones=(0.5, 0.75), factor=0.1)
    assert [round(learning_rate(steps, x, 5), 6) for x in (0.4, 0.5, 0.8)] == [2.0, 0.2, 0.02]
    warm = Optimizer(schedule="constant", learning_rate=2.0, warmup_steps=3)
    assert [learning_rate(warm, 0.1, step) for step in range(5)] == [0.5, 1.0, 1.5, 2.0, 2.0]


def written(folder: Path, code: str) -> Config:
    (folder / f"mine_{folder.name}.py").write_text(code)
    text = f'[model]\nname = "mine_{folder.name}:model"\nwidth = 5\n[data]\nname = "mine_{folder.name}:data"\n'
    return job(folder, text)


def test_models_and_data_of_the_users_are_found_beside_the_file(tmp_path: Path) -> None:
    code = (
        "import torch\n"
        "def data():\n"
        "    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(1))\n"
        "    y = (x[:, 0] > 0).long()\n"
        "    return (x, y), (x.numpy(), y.numpy())\n"
        "def model(inputs, classes, width):\n"
        "    assert inputs == (3,) and classes == 2\n"
        "    return torch.nn.Sequential(torch.nn.Linear(3, width), torch.nn.Tanh(), torch.nn.Linear(width, 2))\n"
    )
    summary = train(written(tmp_path, code), Listener())
    assert summary.parameters == 4 * 5 + 6 * 2
    assert summary.accuracy is not None


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def data(): return 3\ndef model(*a, **k): pass\n", "must return .training inputs, targets"),
        ("x = 1\n", "has no function 'data'"),
        ("import nothing_like_this\n", "cannot be imported: No module named 'nothing_like_this'"),
        ("def data():\n    return 1 / 0\n", r"failed in mine_.*\.py, line 2, with ZeroDivisionError"),
        ("import torch\ndef data():\n    x = torch.zeros(9, 2), torch.arange(9)\n    return x, x\n"
         "def model(inputs, classes, width): return torch.nn.Linear(2, 3)\n", r"gives \(1, 3\) .* must be \(1, 9\)"),
        ("import torch\ndef data():\n    x = torch.zeros(9, 2), torch.arange(9)\n    return x, x\n"
         "def model(inputs, classes, width): return 3\n", "must return a torch.nn.Module, not int"),
    ],
)  # fmt: skip
def test_mistakes_in_functions_of_the_users_are_told(tmp_path: Path, code: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        train(written(tmp_path, code), Listener())


def test_a_batch_larger_than_the_data_is_refused(tmp_path: Path) -> None:
    config = job(tmp_path)
    with pytest.raises(InputError, match="take 71 examples a step, and there are only 70"):
        train(replace(config, training=replace(config.training, batch=71)), Listener())


def test_the_plan_from_before_an_interruption_is_taken_where_it_is_for_as_many_workers(tmp_path: Path) -> None:
    config = job(tmp_path)
    alone, three = (Choice.of(ring(full_mesh(n))).to_text() for n in (1, 3))
    with joined("cpu") as place:
        restored, planned = (synchronized(torch.nn.Linear(2, 2), config, place.world, text) for text in (alone, three))
    assert restored.decision.choice.to_text() == alone
    assert "as before the interruption" in restored.report()
    assert planned.decision.choice == Choice.of("backend")


def test_a_network_of_other_workers_is_refused_and_relays_have_no_rank(tmp_path: Path) -> None:
    network = full_mesh(4)
    network.with_active(network.workers[:3]).save(tmp_path / "net.yaml")
    config = job(tmp_path)
    config = replace(config, plan=replace(config.plan, network="net.yaml"))
    found = network_of(config, 3)
    assert found is not None
    assert found.workers == network.workers[:3]
    assert network.workers[3] in found.switches
    with pytest.raises(InputError, match="has 3 active workers, and 4 train"):
        network_of(config, 4)


def test_a_summary_says_what_share_communication_had() -> None:
    numbers = dict.fromkeys(Summary.__dataclass_fields__, 0)
    summary = Summary(**(numbers | {"step_seconds": 4.0, "communication_seconds": 1.0}))  # type: ignore[arg-type]
    assert summary.communication_share == 0.25


def test_a_loss_that_is_not_finite_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    record = StepRecord(1, 1, float("nan"), 8, 0.1, 0.1, 0.0, 0.0, 0, 0.1, test_loss=float("inf"))
    read = json.loads(record.to_json(), parse_constant=lambda word: pytest.fail(word))
    assert read["loss"] is None
    assert read["test_loss"] is None
    print_json({"loss": float("nan"), "all": [1.0, (float("inf"),)]})
    assert json.loads(capsys.readouterr().out) == {"loss": None, "all": [1.0, [None]]}
